package recommend

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"forage"
	"forage/internal/audit"
	"forage/internal/policy"
	"forage/internal/testdir"
)

func all(events []audit.Event) iter.Seq2[audit.Event, error] {
	return func(yield func(audit.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func of(t interface {
	Helper()
	Fatal(...any)
}, events ...audit.Event) Recommendation {
	s, err := From(all(events))
	testdir.Must(t, err)
	return s
}

func connect(host string, port uint16) audit.Event {
	return audit.Event{Kind: audit.Connect, Verdict: "allow", Host: host, Port: port, Rule: "network-full"}
}

func http(host string, port uint16, method, path string) audit.Event {
	return audit.Event{Kind: audit.HTTP, Verdict: "allow", Host: host, Port: port, Method: method, Path: path}
}

func monitored(e audit.Event) audit.Event {
	e.Verdict, e.Rule, e.Monitored = "deny", "default-deny", true
	return e
}

func by(rule string, e audit.Event) audit.Event {
	e.Rule = rule
	return e
}

func denied(e audit.Event) audit.Event {
	e.Verdict = "deny"
	return e
}

func TestFrom(t *testing.T) {
	const api = "api.example.com"
	tests := []struct {
		name   string
		events []audit.Event
		allow  []string
		rules  []forage.Rule
		more   Recommendation // LookedUp, Pushed and Wide
	}{
		{name: "nothing"},
		{name: "connections", events: []audit.Event{connect("b.example", 443), connect("a.example", 80), connect("a.example", 443), connect("a.example", 443)},
			allow: []string{"a.example", "b.example"}},
		{name: "monitored, not denied", events: []audit.Event{monitored(connect("a.example", 443)), denied(connect("b.example", 443)), denied(http("c.example", 80, "GET", "/"))},
			allow: []string{"a.example"}},
		{name: "another port", events: []audit.Event{connect("a.example", 22), connect("a.example", 443)},
			allow: []string{"a.example:22", "a.example:443"}},
		{name: "named with its port", events: []audit.Event{by("git.corp.example:443", connect("git.corp.example", 443))},
			allow: []string{"git.corp.example:443"}},
		{name: "addresses, the host's own, and names without a dot", events: []audit.Event{connect("192.0.2.7", 443), connect("2001:db8::1", 443), connect("host.forage.internal", 8080), connect("nas", 80)},
			allow: []string{"192.0.2.7:443", "[2001:db8::1]:443", "host.forage.internal:8080", "nas:80"}},
		{name: "looked up alone", events: []audit.Event{{Kind: audit.DNS, Verdict: "allow", Host: "a.example"}, {Kind: audit.DNS, Verdict: "allow", Host: "b.example"}, connect("b.example", 443)},
			allow: []string{"b.example"}, more: Recommendation{LookedUp: []string{"a.example"}}},
		{name: "requests", events: []audit.Event{connect(api, 443), http(api, 443, "POST", "/v1/messages"), http(api, 443, "GET", "/v1/models"), http(api, 443, "GET", "/v1/messages")},
			rules: []forage.Rule{{Host: api, Methods: []string{"GET", "POST"}, Paths: []string{"/v1/messages"}}, {Host: api, Methods: []string{"GET"}, Paths: []string{"/v1/models"}}}},
		{name: "ids", events: []audit.Event{http(api, 443, "GET", "/repos/acme/one/issues/17"), http(api, 443, "GET", "/repos/acme/one/issues/18"), http(api, 443, "DELETE", "/repos/acme/one/issues/19/labels")},
			rules: []forage.Rule{{Host: api, Methods: []string{"GET"}, Paths: []string{"/repos/acme/one/issues/*"}}, {Host: api, Methods: []string{"DELETE"}, Paths: []string{"/repos/acme/one/issues/19/labels"}}}},
		{name: "one id stays as it is", events: []audit.Event{http(api, 443, "GET", "/issues/17")},
			rules: []forage.Rule{{Host: api, Methods: []string{"GET"}, Paths: []string{"/issues/17"}}}},
		{name: "versions and words are no ids", events: []audit.Event{http(api, 443, "GET", "/v1/a"), http(api, 443, "GET", "/v2/a"), http(api, 443, "GET", "/v1/b")},
			rules: []forage.Rule{{Host: api, Methods: []string{"GET"}, Paths: []string{"/v1/a", "/v1/b", "/v2/a"}}}},
		{name: "many words", events: []audit.Event{http(api, 443, "GET", "/u/a"), http(api, 443, "GET", "/u/b"), http(api, 443, "GET", "/u/c"), http(api, 443, "GET", "/u/d"), http(api, 443, "GET", "/u/e")},
			rules: []forage.Rule{{Host: api, Methods: []string{"GET"}, Paths: []string{"/u/*"}}}},
		{name: "what has to be escaped", events: []audit.Event{http(api, 443, "GET", "/search/a%20b/x")},
			rules: []forage.Rule{{Host: api, Methods: []string{"GET"}, Paths: []string{"/search/*/x"}}}},
		{name: "what was cut off", events: []audit.Event{http(api, 443, "GET", "/a/"+strings.Repeat("x", 1018)+"...")},
			rules: []forage.Rule{{Host: api, Methods: []string{"GET"}, Paths: []string{"/a/**"}}}},
		{name: "not to tell apart", events: []audit.Event{http(api, 443, "GET", "/%00"), http(api, 443, "GET", "/a"), http("b.example", 80, "get", "/")},
			allow: []string{api, "b.example"}, more: Recommendation{Wide: []string{api, "b.example"}}},
		{name: "requests in the clear, and none", events: []audit.Event{http(api, 80, "GET", "/a"), connect(api, 443)},
			allow: []string{api + ":443"}, rules: []forage.Rule{{Host: api + ":80", Methods: []string{"GET"}, Paths: []string{"/a"}}}},
		{name: "a proxy's own request", events: []audit.Event{http(api, 443, "CONNECT", "")}, allow: []string{api}},
		{name: "git", events: []audit.Event{http("git.example", 443, "GET", "/acme/one.git/info/refs"), http("git.example", 443, "POST", "/acme/one.git/git-upload-pack"),
			http("git.example", 443, "POST", "/acme/two/git-receive-pack"), http("git.example", 443, "GET", "/acme/one/issues")},
			rules: []forage.Rule{{Host: "git.example", Git: &forage.GitRule{Repos: []string{"acme/one", "acme/two"}}}, {Host: "git.example", Methods: []string{"GET"}, Paths: []string{"/acme/one/issues"}}},
			more:  Recommendation{Pushed: []string{"git.example/acme/two"}}},
		{name: "no host", events: []audit.Event{connect("a b\n", 443), connect("", 443), connect("127.0.0.1", 80), connect("x.localhost", 80)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := of(t, tt.events...)
			want := Recommendation{Allow: tt.allow, Rules: tt.rules, LookedUp: tt.more.LookedUp, Pushed: tt.more.Pushed, Wide: tt.more.Wide, Events: got.Events, Requests: got.Requests}
			if diff := cmp.Diff(fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got)); diff != "" {
				for i, r := range got.Rules {
					if i >= len(want.Rules) || !cmp.Equal(r, want.Rules[i]) {
						t.Errorf("rule %d: %+v", i, r)
					}
				}
				got.Rules, want.Rules = nil, nil
				testdir.Same(t, "", fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got))
			}
		})
	}
}

// Whatever was recorded as allowed, or let through, the recommendation allows; and
// none of the hosts that were not.
func TestRecommendationAllowsTheRecording(t *testing.T) {
	hosts := []string{"a.example", "b.a.example", "c.example", "192.0.2.7", "nas", "host.forage.internal"}
	segments := []string{"v1", "v2", "repos", "17", "18", "19", "a%20b", "a%2fb", "x;y=1", "..", ".", "", "*", "**", "info", "refs", "one.git", "git-upload-pack", "é", "%C3%A9", "%zz", "A", "a", `\`}
	rapid.Check(t, func(t *rapid.T) {
		var events []audit.Event
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			e := connect(rapid.SampledFrom(hosts).Draw(t, "host"), rapid.SampledFrom([]uint16{80, 443, 8080}).Draw(t, "port"))
			if rapid.Bool().Draw(t, "request") {
				e.Kind, e.Method = audit.HTTP, rapid.SampledFrom([]string{"GET", "POST", "DELETE", "M-SEARCH", "odd"}).Draw(t, "method")
				e.Path = "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(segments), 0, 5).Draw(t, "path"), "/")
			}
			if rapid.Bool().Draw(t, "monitored") {
				e = monitored(e)
			}
			events = append(events, e)
		}
		s := of(t, append(events, denied(connect("evil.example", 443)))...)
		p, err := policy.Compile(forage.Network{Mode: forage.NetworkRestricted, Allow: s.Allow, Rules: s.Rules})
		if err != nil {
			t.Fatalf("%v\n%+v", err, s)
		}
		for _, e := range events {
			r := request{e.Method, e.Path}
			if d := policy.Decide(p, r.at(place{e.Host, e.Port})); d.Verdict != policy.Allow {
				t.Errorf("%s %s:%d%s is not allowed: %s\n%s", e.Method, e.Host, e.Port, e.Path, d.Reason, s.TOML("x", ""))
			}
			connection := request{}.at(place{e.Host, e.Port})
			if d := policy.Decide(p, connection); d.Verdict != policy.Allow {
				t.Errorf("a connection to %s:%d is not allowed", e.Host, e.Port)
			}
		}
		if d := policy.Decide(p, policy.Request{Host: "evil.example", Port: 443}); d.Verdict == policy.Allow {
			t.Errorf("what was denied is allowed by %s", d.Rule)
		}
	})
}

// A flood of hosts and paths is summed up.
func TestFlood(t *testing.T) {
	var events []audit.Event
	for i := range maxRequests + 1 {
		events = append(events, http("a.example", 443, "GET", fmt.Sprintf("/%d/%d", i, i)))
	}
	for i := range 200 {
		events = append(events, http("b.example", 443, "GET", strings.Repeat("/x", i)))
	}
	s := of(t, events...)
	testdir.Same(t, "", []string{"a.example"}, s.Wide)
	testdir.Same(t, "", []forage.Rule{{Host: "b.example", Methods: []string{"GET"}}}, s.Rules)
}

func TestReadError(t *testing.T) {
	broken := errors.New("broken")
	_, err := From(func(yield func(audit.Event, error) bool) { yield(audit.Event{}, broken) })
	if !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestTOML(t *testing.T) {
	s := of(t, connect("a.example", 443), connect("b.example", 443), http("api.example.com", 443, "GET", "/q/\"é*"),
		http("git.example", 443, "POST", "/acme/one/git-receive-pack"),
		audit.Event{Kind: audit.DNS, Verdict: "allow", Host: "evil\n[templates.x]\x1b[2J"})
	want := `# from \u001b here
# evil\n[templates.x]\u001b[2J: only looked up, and not connected to
# git.example/acme/one: pushed to with git; say which branches may be with git = { push = [...] }
[templates."my template"]
network = "restricted"
allowedHosts = [
  "a.example",
  "b.example",
]

[[templates."my template".rules]]
host = "api.example.com"
methods = ["GET"]
paths = ["/q/\"\u00e9*"]

[[templates."my template".rules]]
host = "git.example"
git = { repos = ["acme/one"] }
`
	testdir.Same(t, "", want, s.TOML("my template", "from \x1b here"))
}
