package policy

import (
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"forage"
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

// TestReadings: a path that isn't plain is refused, one with escaped slashes has two readings.
func TestReadings(t *testing.T) {
	for path, want := range map[string][]string{
		"":                       {"/"},
		"/":                      {"/"},
		"/v1/messages/":          {"/v1/messages"},
		"/.well-known/x.json":    {"/.well-known/x.json"},
		"/%61dmin/a%20b":         {"/admin/a b"},
		"/@acme%2fsite":          {"/@acme%2Fsite", "/@acme/site"},
		"/v1/models/m:generate~": {"/v1/models/m:generate~"},
	} {
		if got, ok := Readings(path); !ok || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", path, got, ok)
		}
	}
	for _, path := range []string{
		"x", "/a/../b", "/a/%2e%2e/b", "/a/.", "/a//b", "/a%2f/b", "/a/..%2Fb", "/a;b=c/d", "/a%3bb", `/a\b`, "/a%5cb", "/a?b", "/a%3Fb", "/a%23",
		"/%252e", "/%2561", "/%", "/%zz", "/a%0a", "/a%00", "/%c0%ae", "/a%7f",
		"/admin%20/x", "/%20admin", "/..%20/", "/admin.", "/.../x",
		"/.\u00ad./x", "/.%e2%80%8b./x", "/adm\u200bin", "/adm\u0131n", "/\u017fecret", "/\u212aey", "/pa\u00df", "/a\u2044b", "/a\u2215b", "/\u2025/x", "/ａ", "/e\u0301",
		"/" + strings.Repeat("a", maxPath),
	} {
		if got, ok := readings(path, false); ok {
			t.Errorf("%q is read as %q", path, got)
		}
	}
	if _, ok := readings("/%c3%a9t\u00e9", false); !ok {
		t.Error("letters beyond ASCII are refused")
	}
	if _, ok := readings("/%c3%a9t\u00e9", true); ok {
		t.Error("letters beyond ASCII are taken beside a rule that denies a path")
	}
}

// TestSpellingsPastARule: no spelling of a path gets past a rule that denies it.
func TestSpellingsPastARule(t *testing.T) {
	p, err := Compile(forage.Network{Mode: "restricted", Allow: []string{"a.example"}, Rules: []forage.Rule{{Host: "a.example", Paths: []string{"/admin/**"}, Deny: true}}})
	if err != nil {
		t.Fatal(err)
	}
	decide := func(path string) Decision {
		return Decide(p, Request{Host: "a.example", Port: 443, Method: "GET", Path: path})
	}
	for _, path := range []string{"/admin", "/ADMIN/x", "/%61dmin", "/admin%2fx", "/admin%20/x", "/x/..%20/admin", "/adm\u0131n/x", "/x/.\u00ad./admin", "/admin./x", "/admin\u2044x", "/admin;a/x", "/x//admin"} {
		if d := decide(path); d.Verdict != Deny {
			t.Errorf("%q: %+v", path, d)
		}
	}
	if d := decide("/public/x y"); d.Verdict != Allow {
		t.Errorf("%+v", d)
	}
}

// FuzzReadings: what is read has no second meaning left.
func FuzzReadings(f *testing.F) {
	for _, seed := range []string{"/", "/a/%2e%2e/b", "/a;b/..;/c", "/%252e", `/a\b`, "/%c0%ae", "/a?b#c", "/\u2025/x", "/%", "/a//b/./c", "/a%2fb"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		all, ok := readings(raw, false)
		if !ok {
			return
		}
		if len(all) != 1 && len(all) != 2 {
			t.Fatalf("%q: %d readings", raw, len(all))
		}
		open := "/" + strings.Join(all[len(all)-1], "/")
		if path.Clean(open) != open || strings.ContainsAny(open, `\;?#%`) || strings.ContainsFunc(open, isControl) {
			t.Fatalf("%q is read as %q", raw, open)
		}
	})
}
