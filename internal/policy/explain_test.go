package policy_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"forage"
	"forage/internal/policy"
)

func TestExplain(t *testing.T) {
	network := forage.Network{Mode: forage.NetworkRestricted, Allow: list("open.test"), Rules: []forage.Rule{
		allow("api.test", list("GET"), list("/repos/**")), deny("api.test", nil, list("/repos/secret/**")),
		{Host: "git.test", Git: &forage.GitRule{Repos: list("acme/*")}},
	}}
	for text, want := range map[string][]policy.Change{
		"GET https://new.test/x":        {{Allow: "new.test"}},
		"GET https://new.test:8443/x":   {{Allow: "new.test:8443"}},
		"GET http://10.0.0.7/":          {{Allow: "10.0.0.7:80"}},
		"GET http://intranet/":          {{Allow: "intranet:80"}},
		"GET https://[2001:4860::8]/":   {{Allow: "[2001:4860::8]"}},
		"POST https://api.test/repos/a": {{Rule: &forage.Rule{Host: "api.test", Methods: list("POST"), Paths: list("/repos/a")}}},
		"GET https://api.test/repos/secret/a": {{Remove: "deny api.test /repos/secret/**"},
			{Rule: &forage.Rule{Host: "api.test", Methods: list("GET"), Paths: list("/repos/secret/a")}}},
		"POST https://git.test/acme/x.git/git-receive-pack": {{Rule: &forage.Rule{Host: "git.test", Git: &forage.GitRule{Repos: list("acme/x"), Push: list("agent/*")}}}},
		"GET https://git.test/new/x/info/refs?service=git-upload-pack": {
			{Rule: &forage.Rule{Host: "git.test", Git: &forage.GitRule{Repos: list("new/x")}}}},
		"GET https://open.test/x": {
			{Rule: &forage.Rule{Host: "open.test", Methods: list("GET"), Paths: list("/x"), Deny: true}},
			{Rule: &forage.Rule{Host: "open.test", Deny: true}}, {Remove: "open.test"}},
		"GET https://localhost/":                nil,
		"GET https://127.0.0.1/":                nil,
		"GET https://api.test/repos/%00":        nil,
		"GET https://api.test/repos/..%2fx":     nil,
		"GET https://api.test/projects/a%2fb/c": {{Rule: &forage.Rule{Host: "api.test", Methods: list("GET"), Paths: list("/projects/a%2Fb/c")}}},
	} {
		p, err := policy.Compile(network)
		if err != nil {
			t.Fatal(err)
		}
		got := policy.Explain(p, ask(t, text))
		if diff := cmp.Diff(want, got.Changes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	none := policy.Explain(compile(t, "none"), ask(t, "GET https://new.test/"))
	if diff := cmp.Diff([]policy.Change{{Mode: forage.NetworkRestricted, Allow: "new.test"}}, none.Changes); diff != "" {
		t.Errorf("without a network (-want +got):\n%s", diff)
	}
}

// TestExplanationsAreTrue: what is said to change a decision does, written
// down and read again; and an explanation decides nothing else than Decide.
func TestExplanationsAreTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := someNetwork.Draw(t, "network")
		p := mustCompile(t, n)
		for _, to := range destinations(t) {
			for _, r := range append(requestsTo(to), to) {
				e := policy.Explain(p, r)
				if diff := cmp.Diff(policy.Decide(p, r), e.Decision); diff != "" {
					t.Fatalf("%+v (-decided +explained):\n%s", r, diff)
				}
				for _, c := range e.Changes {
					changed := mustCompile(t, apply(n, c, t))
					if got := policy.Decide(changed, r); got.Verdict == e.Verdict {
						t.Fatalf("%+v with %+v: %+v, as before", r, c, got)
					}
				}
			}
		}
	})
}

// apply makes a change to a network as a user would in a file.
func apply(n forage.Network, c policy.Change, t *rapid.T) forage.Network {
	n.Allow, n.Rules = slices.Clone(n.Allow), slices.Clone(n.Rules)
	if c.Mode != "" {
		n.Mode = c.Mode
	}
	if c.Allow != "" {
		n.Allow = append(n.Allow, c.Allow)
	}
	if c.Rule != nil {
		n.Rules = append(n.Rules, *c.Rule)
	}
	if c.Remove != "" {
		n.Allow = slices.DeleteFunc(n.Allow, func(text string) bool { return text == c.Remove })
		n.Rules = slices.DeleteFunc(n.Rules, func(r forage.Rule) bool { return policy.RuleText(r) == c.Remove })
	}
	return n
}
