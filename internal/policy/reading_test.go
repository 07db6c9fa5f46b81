package policy

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestGlobsAgainstTheirMeaning compares with the meaning written down: "**" is
// nothing, or a segment and "**".
func TestGlobsAgainstTheirMeaning(t *testing.T) {
	parts := rapid.SampledFrom([]string{"a", "b", "ab", "*", "**", "a*", "*b", "*a*b*"})
	words := rapid.SampledFrom([]string{"a", "b", "ab", "aab", "abab", "c", ""})
	rapid.Check(t, func(t *rapid.T) {
		text := "/" + strings.Join(rapid.SliceOfN(parts, 0, 6).Draw(t, "glob"), "/")
		g, err := parseGlob(text)
		if err != nil {
			t.Fatal(err)
		}
		path := rapid.SliceOfN(words, 0, 7).Draw(t, "path")
		if got, want := g.match(path), means(g.segments, path); got != want {
			t.Fatalf("%s and %q: %v", text, path, got)
		}
	})
}

func means(pattern, path []string) bool {
	if len(pattern) == 0 {
		return len(path) == 0
	}
	if pattern[0] == "**" {
		return means(pattern[1:], path) || len(path) > 0 && means(pattern, path[1:])
	}
	return len(path) > 0 && meansPart(pattern[0], path[0]) && means(pattern[1:], path[1:])
}

func meansPart(pattern, word string) bool {
	if pattern == "" {
		return word == ""
	}
	if pattern[0] == '*' {
		return meansPart(pattern[1:], word) || word != "" && meansPart(pattern, word[1:])
	}
	return word != "" && word[0] == pattern[0] && meansPart(pattern[1:], word[1:])
}

func TestRanks(t *testing.T) {
	ordered := []string{"/**", "/*", "/*/*", "/a*", "/a/**", "/a/*/**", "/a/*", "/a/b*", "/a/**/b", "/a/*/b", "/a/b/c/**", "/a/b/c"}
	for i := 1; i < len(ordered); i++ {
		less, more := mustGlob(t, ordered[i-1]), mustGlob(t, ordered[i])
		if less.rank.compare(more.rank) >= 0 {
			t.Errorf("%s is not less special than %s", less.text, more.text)
		}
	}
}

func mustGlob(t *testing.T, text string) *glob {
	t.Helper()
	g, err := parseGlob(text)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// respelled is a path in another spelling that some server reads the same.
func respelled(path string, choice func(n int) int) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		c := path[i]
		switch choice(6) {
		case 0:
			b.WriteString(escaped(c, choice))
		case 1:
			if c == '/' {
				b.WriteString([]string{"//", "/./", "/x/../", "/x/%2e%2e/", "/;a/", "/x/..;/", "%2f", "%252f", `\`, "%5c"}[choice(10)])
				continue
			}
			b.WriteByte(c)
		case 2:
			b.WriteString(strings.ToUpper(string(c)))
		default:
			b.WriteByte(c)
		}
	}
	s := b.String()
	if s == "" || s[0] != '/' {
		s = "/" + s
	}
	return s + []string{"", "", "/", ";a=b", "%3b", "%3fa", "%23"}[choice(7)]
}

// escaped is a byte as an escape, up to as often as a path is decoded.
func escaped(c byte, choice func(n int) int) string {
	const hex = "0123456789abcdefABCDEF"
	s := "%" + string(hex[c>>4]) + string(hex[c&15])
	for range choice(maxDecoded) {
		s = strings.Replace(s, "%", "%25", 1)
	}
	return s
}

// TestRespelledPathsAreRead: whatever a path is spelled like, what it is read as is among its readings.
func TestRespelledPathsAreRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SampledFrom([][]string{{"admin"}, {"a", "b"}, {"repos", "acme", "x.git", "git-receive-pack"}}).Draw(t, "path")
		text := respelled("/"+strings.Join(want, "/"), func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") })
		all, ok := readings(text)
		if !ok {
			return // refused is as good
		}
		if !slices.ContainsFunc(all, func(got []string) bool { return strings.EqualFold(strings.Join(got, "/"), strings.Join(want, "/")) }) {
			t.Fatalf("%s is read as %q, not as %q", text, all, want)
		}
	})
}

// TestTooManyReadings: where not all can be looked at, none counts.
func TestTooManyReadings(t *testing.T) {
	long := "/a" + strings.Repeat("/b;c%252f.%5cd%2fｅ", 400)
	if all, ok := readings(long + "/../admin"); ok {
		t.Errorf("%d readings of a path of %d bytes", len(all), len(long))
	}
	if _, ok := readings("/a" + strings.Repeat("/b;c%2f", 20)); !ok {
		t.Error("a short path is refused")
	}
}

// TestManyReadings: the worst of paths costs no more than a bounded number.
func TestManyReadings(t *testing.T) {
	for _, unit := range []string{"%2e%2e%2f", "/..;", "/%252e%252e;a", `\..`, "%25", "%252525", "/;", "//", "/．．", "%3f", "/a%2f;b%5c..%3f%2523ａ"} {
		path := "/" + strings.Repeat(unit, (maxPath-1)/len(unit))
		if all, _ := readings(path); len(all) > 400 {
			t.Errorf("%.40q: %d readings", path, len(all))
		}
	}
}

func BenchmarkReadings(b *testing.B) {
	for name, path := range map[string]string{
		"ordinary": "/v1/messages",
		"worst":    "/" + strings.Repeat("/a%2f;b%5c..%3f%2523ａ", 300),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				readings(path)
			}
		})
	}
}

// FuzzReadings: no reading is missing that decoding once and cleaning gives,
// and none holds what can't be judged.
func FuzzReadings(f *testing.F) {
	for _, seed := range []string{"/", "/a/%2e%2e/b", "/a;b/..;/c", "/%252e", `/a\b`, "/%c0%ae", "/a?b#c", "/\u2025/x", "/%", "/a//b/./c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		all, ok := readings(path)
		if !ok {
			return
		}
		if len(all) == 0 || len(all) > 400 {
			t.Fatalf("%q: %d readings", path, len(all))
		}
		once := decode(path, func(byte) bool { return true })
		for _, want := range []string{once, removeDots(once), mergeSlashes(once), removeDots(mergeSlashes(once)), removeDots(cutParameters(once))} {
			if !slices.ContainsFunc(all, func(got []string) bool { return slices.Equal(got, segments(want)) }) {
				t.Fatalf("%q is not read as %q: %q", path, want, all)
			}
		}
		for _, way := range all {
			for _, s := range way {
				if strings.ContainsFunc(s, isControl) {
					t.Fatalf("%q: %q", path, way)
				}
			}
		}
	})
}
