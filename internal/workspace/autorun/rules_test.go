package autorun

import (
	"slices"
	"strings"
	"testing"
)

// TestNames: names.txt has a known kind and a reason for each name, and each name once, in lower case.
func TestNames(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for line := range strings.Lines(namesText) {
		if kind, why, _ := strings.Cut(strings.TrimSpace(line), ": "); !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "#") &&
			(why == "" || !slices.Contains(worstFirst, Kind(kind))) {
			t.Errorf("%q is no kind and why", line)
		}
		if !strings.HasPrefix(line, " ") {
			continue
		}
		for name := range strings.FieldsSeq(line) {
			if seen[name] || name != strings.ToLower(name) {
				t.Errorf("%q is there twice, or not in lower case", name)
			}
			seen[name] = true
		}
	}
	if table := names(); len(table.files) < 500 || len(table.folders) < 80 || len(table.patterns) < 50 {
		t.Errorf("%d files, %d folders, %d patterns", len(table.files), len(table.folders), len(table.patterns))
	}
}
