package hazard

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestRulesAreEachSaidOnce: names are looked up in lower case, and each has one place where its rule is.
func TestRulesAreEachSaidOnce(t *testing.T) {
	for _, name := range slices.Concat(slices.Collect(maps.Keys(byName)), slices.Collect(maps.Keys(byFolder)), slices.Collect(maps.Keys(builds))) {
		places := 0
		want, known := byName[name]
		if known {
			places++
		}
		if rule, ok := byFolder[name]; ok {
			places++
			want = rule
		}
		if why, ok := builds[name]; ok {
			places++
			want = rule{KindBuild, why}
		}
		if ending, ok := byEnding(name[strings.LastIndexByte(name, '/')+1:]); ok && ending == want {
			places++
		}
		if places != 1 || name != strings.ToLower(name) || want.why == "" {
			t.Errorf("%q: in %d places", name, places)
		}
	}
}
