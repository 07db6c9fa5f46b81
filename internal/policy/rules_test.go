package policy_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage"
	"forage/internal/policy"
)

func restricted(t *testing.T, allow []string, rules ...forage.Rule) policy.Policy {
	t.Helper()
	p, err := policy.Compile(forage.Network{Mode: forage.NetworkRestricted, Allow: allow, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ask reads "METHOD https://host[:port]/path[?query]" without making sense of the path.
func ask(t *testing.T, text string) policy.Request {
	t.Helper()
	method, rest, _ := strings.Cut(text, " ")
	scheme, rest, ok := strings.Cut(rest, "://")
	if !ok {
		t.Fatal(text)
	}
	host, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	r, err := policy.ParseAuthority(host, map[string]uint16{"https": 443, "http": 80}[scheme])
	if err != nil {
		t.Fatal(err)
	}
	r.Method = method
	r.Path, r.Query, _ = strings.Cut(path, "?")
	return r
}

func deny(host string, methods, paths []string) forage.Rule {
	return forage.Rule{Host: host, Methods: methods, Paths: paths, Deny: true}
}

func allow(host string, methods, paths []string) forage.Rule {
	return forage.Rule{Host: host, Methods: methods, Paths: paths}
}

func list(items ...string) []string { return items }

// TestRules is the semantics, one line each. A "-" in front of what is asked: denied.
func TestRules(t *testing.T) {
	get := list("GET")
	for _, test := range []struct {
		name  string
		allow []string
		rules []forage.Rule
		ask   []string
	}{
		{"methods and paths", nil, []forage.Rule{allow("api.x.test", get, list("/repos/acme/**"))}, list(
			"GET https://api.x.test/repos/acme/a/b", "GET https://api.x.test/repos/acme", "GET https://api.x.test/repos/acme/",
			"-POST https://api.x.test/repos/acme/a", "-HEAD https://api.x.test/repos/acme/a", "-GET https://api.x.test/repos/acmes/a",
			"-GET https://api.x.test/", "-GET https://x.test/repos/acme/a", "-GET https://a.api.x.test/repos/acme/a",
			"-get https://api.x.test/repos/acme/a", "-Get https://api.x.test/repos/acme/a", "-GETX https://api.x.test/repos/acme/a",
			"GET https://api.x.test/repos/acme/a?../../b")},
		{"one segment", nil, []forage.Rule{allow("x.test", nil, list("/a/*/c"))}, list(
			"PURGE https://x.test/a/b/c", "-GET https://x.test/a/c", "-GET https://x.test/a/b/b/c", "-GET https://x.test/a/b/c/d", "-GET https://x.test/A/b/c")},
		{"part of a segment", nil, []forage.Rule{allow("x.test", nil, list("/v*/x-*.json"))}, list(
			"GET https://x.test/v1/x-.json", "GET https://x.test/v/x-a.b.json", "-GET https://x.test/v1/x.json", "-GET https://x.test/v1/x-a/b.json")},
		{"any depth", nil, []forage.Rule{allow("x.test", nil, list("/a/**/z"))}, list(
			"GET https://x.test/a/z", "GET https://x.test/a/b/c/z", "-GET https://x.test/a/b/c", "-GET https://x.test/z")},
		{"rules go before the list for the same host", list("x.test"), []forage.Rule{allow("x.test", get, nil)}, list(
			"GET https://x.test/", "-POST https://x.test/")},
		{"the list stays for other ports", list("x.test", "x.test:8443"), []forage.Rule{allow("x.test:443", get, nil)}, list(
			"-POST https://x.test/", "POST http://x.test/", "POST https://x.test:8443/")},
		{"a special host alone decides", list("*.x.test"), []forage.Rule{allow("*.x.test", get, nil), allow("api.x.test", list("PUT"), nil)}, list(
			"GET https://a.x.test/", "-PUT https://a.x.test/", "PUT https://api.x.test/", "-GET https://api.x.test/")},
		{"a longer suffix", nil, []forage.Rule{allow("*.test", nil, nil), allow("*.x.test", get, nil)}, list(
			"POST https://y.test/", "-POST https://a.x.test/", "POST https://x.test/")},
		{"the list can be more special than a rule", list("open.x.test"), []forage.Rule{allow("*.x.test", get, nil)}, list(
			"POST https://open.x.test/", "-POST https://a.x.test/")},
		{"rules add up", nil, []forage.Rule{allow("x.test", get, list("/**")), allow("x.test", list("POST"), list("/issues"))}, list(
			"GET https://x.test/a", "GET https://x.test/issues", "POST https://x.test/issues", "-POST https://x.test/a", "-PUT https://x.test/issues")},
		{"a rule for all and one for a part", nil, []forage.Rule{allow("x.test", nil, nil), allow("x.test", get, list("/admin/**"))}, list(
			"POST https://x.test/a", "GET https://x.test/admin/a", "POST https://x.test/admin/a")},
		{"deny a part", list("x.test"), []forage.Rule{deny("x.test", nil, list("/admin/**"))}, list(
			"POST https://x.test/a", "-GET https://x.test/admin/a", "-GET https://x.test/admin")},
		{"deny a method", list("*.x.test"), []forage.Rule{deny("*.x.test", list("DELETE"), nil)}, list(
			"GET https://a.x.test/a", "-DELETE https://a.x.test/a", "-delete https://a.x.test/a", "-Delete https://a.x.test/a")},
		{"allow within what is denied", list("x.test"), []forage.Rule{deny("x.test", nil, list("/admin/**")), allow("x.test", get, list("/admin/status")), allow("x.test", nil, nil)}, list(
			"GET https://x.test/admin/status", "-POST https://x.test/admin/status", "-GET https://x.test/admin/x", "POST https://x.test/")},
		{"deny beats allow", nil, []forage.Rule{allow("x.test", get, list("/a")), deny("x.test", get, list("/a"))}, list("-GET https://x.test/a")},
		{"naming methods is more special", nil, []forage.Rule{deny("x.test", nil, list("/a")), allow("x.test", get, list("/a"))}, list(
			"GET https://x.test/a", "-POST https://x.test/a")},
		{"deny on a special host", list("*.x.test"), []forage.Rule{deny("a.x.test", nil, nil)}, list("-GET https://a.x.test/", "GET https://b.x.test/")},
		{"an allowed host within denied ones", list("a.x.test"), []forage.Rule{deny("*.x.test", nil, nil)}, list("GET https://a.x.test/", "-GET https://b.x.test/")},
		{"a port doesn't outrank a deny", list("x.test:443"), []forage.Rule{deny("x.test", nil, list("/admin/**"))}, list(
			"-GET https://x.test/admin/a", "GET https://x.test/a")},
		{"deny on one port", list("x.test"), []forage.Rule{deny("x.test:80", nil, nil)}, list("GET https://x.test/", "-GET http://x.test/")},
		{"a deny allows nothing", nil, []forage.Rule{deny("x.test", get, nil)}, list("-POST https://x.test/", "-GET https://x.test/")},
		{"an address", nil, []forage.Rule{allow("10.0.0.7:8443", get, list("/a"))}, list(
			"GET https://10.0.0.7:8443/a", "GET https://0x0a.7:8443/a", "-GET https://10.0.0.7:8443/b", "-GET https://10.0.0.7/a")},
		{"the host", nil, []forage.Rule{allow("host.forage.internal:8080", get, nil)}, list(
			"GET http://host.forage.internal:8080/", "-POST http://host.forage.internal:8080/", "-GET http://host.forage.internal/")},
		{"OPTIONS *", nil, []forage.Rule{allow("x.test", nil, nil), allow("y.test", nil, list("/**"))}, list(
			"OPTIONS https://x.test", "OPTIONS https://y.test")},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := restricted(t, test.allow, test.rules...)
			for _, text := range test.ask {
				text, denied := strings.CutPrefix(text, "-")
				got := policy.Decide(p, ask(t, text))
				if denied != (got.Verdict == policy.Deny) || denied != (got.Reason != "") || got.Rule == "" || got.Inspect {
					t.Errorf("%s: %+v", text, got)
				}
			}
		})
	}
}

// TestSpellings: a path that a rule denies is denied in every spelling.
func TestSpellings(t *testing.T) {
	p := restricted(t, list("x.test"), deny("x.test", nil, list("/admin/**", "/a/secret file", "/ü")))
	for _, path := range list(
		"/admin", "/admin/", "/admin/a", "//admin", "///admin//a", "/./admin", "/%61dmin", "/%61%64%6d%69%6e/x", "/%2561dmin", "/%252561dmin",
		"/x/../admin", "/x/%2e%2e/admin", "/x/.%2e/admin", "/x/%2E./admin", "/x%2f..%2fadmin", "/x%2F%2e%2e%2Fadmin", "/x/..%2fadmin", "/x/%252e%252e%252fadmin",
		"/%2e/admin", "/%2fadmin", "/admin%2fa", "/admin%2Fa", "/admin%252fa", `/admin\a`, `\admin`, `/x\..\admin`, "/x%5c..%5cadmin", "/admin%5ca",
		"/admin;a=b", "/admin;/a", "/;x/admin", "/x/..;/admin", "/x/..;a=b/admin", "/x/%2e%2e;/admin", "/admin%3ba", "/admin%3b/a", "/admin;%2fa",
		"/ADMIN", "/Admin/a", "/%41DMIN", "/admin%3fa", "/admin%3f/b", "/admin%23", "/admin#x", "/ａdmin", "/%ef%bd%81dmin", "/admın/../admin", "/a/b/../../admin",
		"/x//../admin", "/x//..//admin", "/x/./../admin", "/../admin", "/../../admin/x", "/..;/admin", "/%2e%2e/admin", "/x/%2e%2e%2f%2e%2e/admin",
		"/a/secret%20file", "/a/secret%2520file", "/A/Secret%20File", "/%C3%BC", "/%c3%bc", "/ü", "/u%cc%88", "/\u2025/admin", "/x/\u2025/admin", "/x\uff0fadmin/../admin",
	) {
		r := policy.Request{Host: "x.test", Port: 443, Method: "GET", Path: path}
		if got := policy.Decide(p, r); got.Verdict != policy.Deny || !strings.HasPrefix(got.Rule, "deny ") && got.Rule != policy.RulePath {
			t.Errorf("%q: %+v", path, got)
		}
	}
	for _, path := range list("/", "/a", "/admins", "/a/b/c", "/a%20b", "/a%2fb", "/x/admin", "/adminadmin", "/a/secret") {
		r := policy.Request{Host: "x.test", Port: 443, Method: "GET", Path: path}
		if got := policy.Decide(p, r); got.Verdict != policy.Allow {
			t.Errorf("%q: %+v", path, got)
		}
	}
}

// TestSpellingsThatAllow: what is allowed is plain, and allowed with escaped slashes as slashes
// too.
func TestSpellingsThatAllow(t *testing.T) {
	p := restricted(t, nil, allow("x.test", nil, list("/repos/acme/**", "/a b", "/q/[x]", "/t/*")))
	for path, want := range map[string]bool{
		"/repos/acme/x": true, "/repos/acme/x%20y": true, "/repos/acme/x%2fy": true, "/repos/acme/x;v=1": false, "/repos/acme//x": false,
		"/repos/acme/./x": false, "/repos/acme/x/../y": false, "/repos/acme/100%25": false, "/repos/acme/%C3%BC": true,
		"/repos/acme/../other": false, "/repos/acme/%2e%2e/other": false, "/repos/acme/..%2fother": false, "/repos/acme/%252e%252e/other": false,
		"/repos/acme/..;/other": false, "/repos/acme/..\\other": false, "/repos/acme/..%5cother": false, "/other/../repos/acme/x": false,
		"/%72epos/acme/x": true, "/repos%2facme/x": false, "/repos/acme%2f..%2fother": false, "/repos/./../repos/acme/x": false,
		"/Repos/acme/x": false, "/repos;/acme/x": false, "//repos/acme/x": false, "/x//../repos/acme/x": false,
		"/a%20b": true, "/a b": true, "/a+b": false, "/a%2520b": false, "/q/%5Bx%5D": true, "/q/[x]": true,
		"/t/a": true, "/t/a%2fb": false, "/t/a;b": false, "/t//a": false, "/t/%2e%2e": false, "/t/..": false,
		"/repos/acme/a%00b": false, "/repos/acme/a%0d%0ab": false, "/repos/acme/\x7f": false, "/repos/acme/%ff": false, "/repos/acme/%c0%ae%c0%ae/x": false,
		"/repos/acme/%25252525252e": false, "repos/acme/x": false, "*": false, "http://x.test/repos/acme/x": false,
		"/repos/acme/" + strings.Repeat("a", 8<<10): false, "/repos/acme/" + strings.Repeat("a", 8000): true,
	} {
		got := policy.Decide(p, policy.Request{Host: "x.test", Port: 443, Method: "GET", Path: path})
		if (got.Verdict == policy.Allow) != want {
			t.Errorf("%.80q: %+v", path, got)
		}
	}
}

// TestEscapedSlashes: names with a slash in them are written as they are sent,
// and mean both that servers may make of them.
func TestEscapedSlashes(t *testing.T) {
	p := restricted(t, nil, allow("x.test", nil, list("/projects/acme%2fsite/**", "/open/**")), deny("x.test", nil, list("/open/acme%2Fsecret/**")))
	for path, want := range map[string]bool{
		"/projects/acme%2Fsite/issues": true, "/projects/acme%2fsite": true, "/projects/acme/site/a": true,
		"/projects/acme%2Fother/a": false, "/projects/acme%252Fsite/a": false, "/projects/acme%2Fsite%2F..%2Fother/a": false, "/projects/acme%2Fsite/../x": false,
		"/open/acme%2Fx": true, "/open/acme%2Fsecret": false, "/open/acme%2fsecret/a": false, "/open/acme/secret/a": false, "/open/ACME%2FSecret/a": false, "/open/acme%252fsecret": false,
	} {
		if got := policy.Decide(p, policy.Request{Host: "x.test", Port: 443, Method: "GET", Path: path}); (got.Verdict == policy.Allow) != want {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

// TestHostSpellings: what can't be a canonical name is not judged as one; and
// what a client may write is one of the same.
func TestHostSpellings(t *testing.T) {
	p := restricted(t, list("*.x.test"), deny("secret.x.test", nil, nil))
	for _, host := range list("secret.x.test", "SECRET.x.test", "secret.X.Test.", "ｓecret.x.test", "secret。x.test", "secret.x．test", "ſecret.x.test", "secre\u00adt.x.test", "secret\u200b.x.test") {
		name, addr, err := policy.ParseHost(host)
		if err != nil {
			continue // refused is as good
		}
		got := policy.Decide(p, policy.Request{Host: name, Addr: addr, Port: 443, Method: "GET", Path: "/"})
		if got.Verdict != policy.Deny {
			t.Errorf("%q (%q): %+v", host, name, got)
		}
	}
	for _, host := range list("Secret.x.test", "secret.x.test.", "sécret.x.test", "secret.x.test:443", "") {
		if got := policy.Decide(p, policy.Request{Host: host, Port: 443}); got.Rule != policy.RuleMalformed {
			t.Errorf("%q: %+v", host, got)
		}
	}
}

func TestConnections(t *testing.T) {
	type want struct {
		verdict policy.Verdict
		inspect bool
		rule    string
	}
	p := restricted(t, list("plain.test", "part.test", "*.wild.test"),
		allow("paths.test", nil, list("/a")), allow("methods.test", list("GET"), nil), allow("all.test", nil, nil),
		forage.Rule{Host: "seen.test", Inspect: true}, allow("more.test", nil, nil), allow("more.test", list("GET"), list("/a")), deny("part.test", nil, list("/x")), deny("gone.test", nil, nil),
		allow("beaten.test", nil, nil), deny("beaten.test", nil, nil), deny("no.wild.test", nil, nil), deny("b.wild.test", list("PUT"), nil),
		forage.Rule{Host: "git.test", Git: &forage.GitRule{Repos: list("a/b")}}, deny("*.test", nil, list("/never")))
	for name, want := range map[string]want{
		"plain.test": {policy.Allow, false, "plain.test"}, "paths.test": {policy.Allow, true, "paths.test /a"}, "methods.test": {policy.Allow, true, "methods.test GET"},
		"all.test": {policy.Allow, false, "all.test"}, "more.test": {policy.Allow, false, "more.test GET /a"}, "seen.test": {policy.Allow, true, "seen.test inspect"}, "part.test": {policy.Allow, true, "part.test"},
		"gone.test": {policy.Deny, false, "deny gone.test"}, "beaten.test": {policy.Deny, false, "deny beaten.test"}, "no.wild.test": {policy.Deny, false, "deny no.wild.test"},
		"a.wild.test": {policy.Allow, true, "*.wild.test"}, "b.wild.test": {policy.Allow, true, "*.wild.test"}, "git.test": {policy.Allow, true, "git.test git a/b"},
		"none.test": {policy.Deny, false, "default-deny"},
	} {
		got := policy.Decide(p, policy.Request{Host: name, Port: 443})
		if name == "a.wild.test" { // "*.test" is less special than what allows it
			want.inspect = false
		}
		if got.Verdict != want.verdict || got.Inspect != want.inspect || got.Rule != want.rule {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if dns := policy.Decide(p, policy.Request{Host: name}); dns.Verdict != want.verdict || dns.Rule != want.rule {
			t.Errorf("%s in DNS: %+v, want %+v", name, dns, want)
		}
	}
}

func TestFullWithRules(t *testing.T) {
	p, err := policy.Compile(forage.Network{Mode: forage.NetworkFull, Rules: []forage.Rule{
		allow("api.x.test", list("GET"), nil), deny("*.evil.test", nil, nil), deny("part.test", list("POST"), nil)}})
	if err != nil {
		t.Fatal(err)
	}
	if p.Full() {
		t.Error("a name seen later can change a verdict")
	}
	for text, want := range map[string]policy.Verdict{
		"GET https://api.x.test/": policy.Allow, "POST https://api.x.test/": policy.Deny, "POST https://other.test/": policy.Allow,
		"GET https://a.evil.test/": policy.Deny, "GET https://part.test/": policy.Allow, "POST https://part.test/": policy.Deny, "GET http://127.0.0.1/": policy.Deny,
	} {
		if got := policy.Decide(p, ask(t, text)); got.Verdict != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func TestGit(t *testing.T) {
	p := restricted(t, list("git.test"),
		forage.Rule{Host: "git.test", Git: &forage.GitRule{Repos: list("acme/*"), Push: list("agent/*")}},
		forage.Rule{Host: "git.test", Git: &forage.GitRule{Repos: list("acme/prod", "other/**")}},
		forage.Rule{Host: "git.test", Git: &forage.GitRule{Repos: list("acme/site"), Push: list("b", "a")}},
		forage.Rule{Host: "git.test", Git: &forage.GitRule{Repos: list("acme/site"), Push: list("a", "c")}})
	for text, push := range map[string]string{
		"GET https://git.test/acme/x/info/refs?service=git-upload-pack":                                 "",
		"GET https://git.test/acme/x.git/info/refs?service=git-upload-pack":                             "",
		"GET https://git.test/acme/x.git/info/refs?service=git-receive-pack":                            "",
		"POST https://git.test/acme/x.git/git-upload-pack":                                              "",
		"POST https://git.test/acme/x/git-receive-pack":                                                 "agent/*",
		"POST https://git.test/acme/x.git/git-receive-pack":                                             "agent/*",
		"POST https://git.test/acme/site.git/git-receive-pack":                                          "a b c",
		"POST https://git.test/other/a/b/c/git-upload-pack":                                             "",
		"-POST https://git.test/acme/prod/git-receive-pack":                                             "", // the more special repository decides alone
		"-GET https://git.test/acme/prod.git/info/refs?service=git-receive-pack":                        "",
		"GET https://git.test/acme/prod.git/info/refs?service=git-upload-pack":                          "",
		"-POST https://git.test/other/a/git-receive-pack":                                               "",
		"-GET https://git.test/acme/x.git/info/refs":                                                    "", // the dumb protocol
		"-GET https://git.test/acme/x.git/HEAD":                                                         "",
		"-GET https://git.test/acme/x.git/objects/info/packs":                                           "",
		"-POST https://git.test/acme/x.git/info/lfs/objects/batch":                                      "",
		"-GET https://git.test/acme/x":                                                                  "",
		"-HEAD https://git.test/acme/x/info/refs?service=git-upload-pack":                               "",
		"-POST https://git.test/acme/x/info/refs?service=git-upload-pack":                               "",
		"-GET https://git.test/acme/x/git-receive-pack":                                                 "",
		"-PUT https://git.test/acme/x/git-receive-pack":                                                 "",
		"-post https://git.test/acme/x/git-receive-pack":                                                "",
		"-POST https://git.test/acme/x/git-receive-pack?service=git-upload-pack":                        "",
		"-GET https://git.test/acme/x/info/refs?service=git-upload-archive":                             "",
		"-GET https://git.test/acme/x/info/refs?service=git-upload-pack&service=git-receive-pack":       "",
		"-GET https://git.test/acme/x/info/refs?service=git-upload-pack%26":                             "",
		"-GET https://git.test/acme/x/y/info/refs?service=git-upload-pack":                              "",
		"-GET https://git.test/acme/info/refs?service=git-upload-pack":                                  "",
		"-GET https://git.test/evil/x/info/refs?service=git-upload-pack":                                "",
		"-POST https://git.test/acme/../evil/x/git-upload-pack":                                         "",
		"-POST https://git.test/acme/x%2f..%2f..%2fevil%2fx/git-receive-pack":                           "",
		"-POST https://git.test/acme/x/git-upload-pack/../git-receive-pack/../../prod/git-receive-pack": "",
		"-POST https://git.test/acme/x/git%2dreceive-pack/..%2fgit-upload-pack":                         "",
		"POST https://git.test/acme/x/git-receive%2dpack":                                               "agent/*",
		"-POST https://git.test/acme/x/git-receive-pack;":                                               "",
		"-POST https://git.test/acme/x/GIT-RECEIVE-PACK":                                                "",
		"POST https://git.test/acme/x//git-receive-pack":                                                "-",
		"-POST https://git.test/info/refs":                                                              "",
		"-POST https://git.test/git-upload-pack":                                                        "",
		"-POST https://git.test/.git/git-upload-pack":                                                   "",
	} {
		text, denied := strings.CutPrefix(text, "-")
		got := policy.Decide(p, ask(t, text))
		if push == "-" { // either is safe: what matters is that a push is seen as one
			if got.Verdict == policy.Allow && got.Push == nil {
				t.Errorf("%s: %+v", text, got)
			}
			continue
		}
		refs := ""
		if got.Push != nil {
			refs = strings.Join(got.Push.Push, " ")
		}
		if denied != (got.Verdict == policy.Deny) || refs != push {
			t.Errorf("%s: %+v (push %q)", text, got, refs)
		}
	}
}

// TestGitBesidePaths: a rule with paths knows nothing of git, and a rule about
// git is more special.
func TestGitBesidePaths(t *testing.T) {
	p := restricted(t, nil, allow("git.test", nil, list("/**")),
		forage.Rule{Host: "git.test", Git: &forage.GitRule{Repos: list("acme/*"), Push: list("agent/*")}},
		forage.Rule{Host: "git.test", Git: &forage.GitRule{Repos: list("acme/prod")}})
	for _, text := range list("POST https://git.test/acme/prod/git-receive-pack", "GET https://git.test/acme/prod/info/refs", "PUT https://git.test/acme/x/git-receive-pack") {
		if got := policy.Decide(p, ask(t, text)); got.Verdict == policy.Allow {
			t.Errorf("%s: %+v", text, got)
		}
	}
	for text, push := range map[string]bool{
		"POST https://git.test/acme/x/git-receive-pack":     true,
		"POST https://git.test/acme/x.git/git-receive-pack": true,
		"POST https://git.test/evil/x/git-receive-pack":     false,
		"GET https://git.test/acme/x":                       false,
	} {
		if got := policy.Decide(p, ask(t, text)); got.Verdict != policy.Allow || (got.Push != nil) != push {
			t.Errorf("%s: %+v", text, got)
		}
	}
	// No spelling of a push is anything else than a push, or denied.
	for _, path := range list("/acme/x/git-receive-pack/", "/acme/x/./git-receive-pack", "/acme//x/git-receive-pack", "/acme/x/git-receive%2dpack", "/acme/%78/git-receive-pack",
		"/acme/x;/git-receive-pack", "/acme/x/git-receive-pack;a", "/y/../acme/x/git-receive-pack", "/acme%2fx/git-receive-pack", "/acme/x%2fgit-receive-pack",
		`/acme/x\git-receive-pack`, "/acme/x/git-receive-pack%3f", "/acme/x.git/%67it-receive-pack", "/acme/x/%2e/git-receive-pack", "//acme/x/git-receive-pack") {
		got := policy.Decide(p, policy.Request{Host: "git.test", Port: 443, Method: "POST", Path: path})
		if got.Verdict == policy.Allow && got.Push == nil {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

func TestAllowsRef(t *testing.T) {
	rule := forage.GitRule{Repos: list("a/b"), Push: list("agent/*", "deep/**", "exact", "refs/tags/v*", "rel-*.x")}
	for ref, want := range map[string]bool{
		"refs/heads/agent/x": true, "refs/heads/agent/x/y": false, "refs/heads/agent": false, "refs/heads/agentx": false,
		"refs/heads/deep/x": true, "refs/heads/deep/x/y/z": true, "refs/heads/deep": false, "refs/heads/exact": true, "refs/heads/exact/x": false,
		"refs/tags/v1": true, "refs/tags/w1": false, "refs/tags/agent/x": false, "refs/heads/rel-1.x": true, "refs/heads/rel-1.y": false,
		"refs/heads/main": false, "main": false, "agent/x": false, "HEAD": false, "": false, "refs/heads/": false, "refs/heads/agent/": false, "/refs/heads/agent/x": false,
		"refs/heads/Agent/x": false, "refs/heads/agent/../main": false, "refs/heads/agent/x/../../main": false, "refs/heads//agent/x": false, "refs/heads/agent/x\x00": false,
		"refs/heads/agent/x y": false, "refs/heads/agent/x.lock": false, "refs/heads/agent/.x": false, "refs/heads/agent/x.": false, "refs/heads/agent/x@{1}": false,
		"refs/heads/agent/*": false, "refs/heads/agent/x~1": false, "refs/heads/agent/x:y": false, `refs/heads/agent\x`: false, "refs/remotes/agent/x": false,
		"refs/heads/agent/x\n": false, "refs/heads/agent/" + strings.Repeat("a", 2000): false, "Refs/heads/agent/x": false, "refs/Heads/agent/x": false,
	} {
		if got := policy.AllowsRef(rule, ref); got != want {
			t.Errorf("%.80q: %v", ref, got)
		}
	}
	if policy.AllowsRef(forage.GitRule{Repos: list("**")}, "refs/heads/x") {
		t.Error("what may be fetched may not be pushed")
	}
}

func TestRuleErrors(t *testing.T) {
	for _, test := range []struct {
		rule forage.Rule
		want string
	}{
		{forage.Rule{}, "a rule needs a host"},
		{forage.Rule{Host: "a b"}, `host: "a b": "a b" is not a host name`},
		{forage.Rule{Host: "10.0.0.0/8"}, "host: "},
		{forage.Rule{Host: "x.test", Methods: list("GET", "Post")}, `methods[1]: "Post": expected a method in upper case`},
		{forage.Rule{Host: "x.test", Paths: list("/a", "b")}, `paths[1]: "b": expected a path that begins with /`},
		{forage.Rule{Host: "x.test", Paths: list("/a\n")}, `paths[0]: expected a path of printable characters`},
		{forage.Rule{Host: "x.test", Git: &forage.GitRule{Repos: list("/a")}}, `git.repos[0]: "/a": expected a repository without /`},
		{forage.Rule{Host: "x.test", Git: &forage.GitRule{Repos: list("a"), Push: list("")}}, `git.push[0]: expected a branch`},
	} {
		err := policy.CheckRule(test.rule)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want %s", test.rule, err, test.want)
		}
		if _, err := policy.Compile(forage.Network{Mode: "restricted", Rules: []forage.Rule{{Host: "ok.test"}, test.rule}}); err == nil || !strings.Contains(err.Error(), "rule 2") {
			t.Errorf("%+v: %v", test.rule, err)
		}
	}
}

// TestAddressesOfRules: where a rule names an address, and where it denies one.
func TestAddressesOfRules(t *testing.T) {
	p := restricted(t, list("x.test"), allow("10.0.0.7:443", list("GET"), nil), deny("8.8.8.8", nil, nil), deny("1.1.1.1", nil, list("/a")))
	d := policy.Decide(p, policy.Request{Host: "x.test", Port: 443})
	d.Inspect, d.Push = true, &forage.GitRule{Push: list("x")}
	for addr, want := range map[string]policy.Decision{
		"10.0.0.7:443": {Verdict: policy.Allow, Rule: "10.0.0.7:443 GET", Named: true, Inspect: true, Push: d.Push},
		"9.9.9.9:443":  d,
		"1.1.1.1:443":  d,
		"8.8.8.8:443":  {Rule: "deny 8.8.8.8", Reason: "a rule denies its address: deny 8.8.8.8"},
	} {
		at := request(t, addr)
		got := policy.CheckAddr(p, d, addrPort(at), policy.Classify(at.Addr))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", addr, diff)
		}
	}
}

func addrPort(r policy.Request) netip.AddrPort { return netip.AddrPortFrom(r.Addr, r.Port) }

// In monitor mode a push is read along where rules allow one to some branches, and nowhere else.
func TestMonitoredPush(t *testing.T) {
	p, err := policy.Compile(forage.Network{Mode: forage.NetworkRestricted, Monitor: true, Rules: []forage.Rule{
		{Host: "git.example", Git: &forage.GitRule{Repos: []string{"acme/site"}, Push: []string{"agent/*"}}},
		{Host: "git.example", Git: &forage.GitRule{Repos: []string{"acme/docs"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for path, guarded := range map[string]bool{
		"/acme/site.git/git-receive-pack":  true,
		"/acme/docs.git/git-receive-pack":  false,
		"/other/site.git/git-receive-pack": false,
	} {
		d := policy.Decide(p, policy.Request{Host: "git.example", Port: 443, Method: "POST", Path: path})
		if d.Verdict != policy.Allow || d.Monitored == guarded || (d.Push != nil) != guarded {
			t.Errorf("%s: %+v", path, d)
		}
	}
}
