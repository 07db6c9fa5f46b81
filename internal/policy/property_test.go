package policy_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"forage"
	"forage/internal/policy"
)

// What networks and requests of the properties are made of: little, so that they meet.
var (
	someHosts = rapid.SampledFrom([]string{
		"a.example", "a.example:443", "a.example:80", "*.example", "*.example:443", "x.a.example", "*.a.example",
		"8.8.8.8", "8.8.8.8:443", "10.0.0.1:443", "local:443", "host.forage.internal:443",
	})
	someMethods = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"GET", "POST", "DELETE"}), 0, 2, rapid.ID)
	somePaths   = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
		"/", "/a", "/a/b", "/a/*", "/a/**", "/**", "/*/b", "/a/b*", "/**/b", "/a/*/c", "/A",
	}), 0, 2, rapid.ID)
	someGit = rapid.SampledFrom([]*forage.GitRule{
		nil, nil, nil, nil,
		{Repos: []string{"a/b"}}, {Repos: []string{"a/*"}, Push: []string{"agent/*"}}, {Repos: []string{"**"}, Push: []string{"x"}},
	})
	someModes = rapid.SampledFrom([]forage.NetworkMode{forage.NetworkRestricted, forage.NetworkRestricted, forage.NetworkFull, forage.NetworkNone})
)

var someRule = rapid.Custom(func(t *rapid.T) forage.Rule {
	r := forage.Rule{Host: someHosts.Draw(t, "host"), Inspect: rapid.IntRange(0, 5).Draw(t, "inspect") == 0}
	if r.Git = someGit.Draw(t, "git"); r.Git == nil {
		r.Methods, r.Paths = someMethods.Draw(t, "methods"), somePaths.Draw(t, "paths")
		r.Deny = rapid.Bool().Draw(t, "deny")
	}
	return r
})

var someNetwork = rapid.Custom(func(t *rapid.T) forage.Network {
	return forage.Network{
		Mode:  someModes.Draw(t, "mode"),
		Allow: rapid.SliceOfN(someHosts, 0, 4).Draw(t, "allow"),
		Rules: rapid.SliceOfN(someRule, 0, 6).Draw(t, "rules"),
	}
})

// destinations are some of those that the properties are tried on.
func destinations(t *rapid.T) (some []policy.Request) {
	var all []policy.Request
	for _, port := range []uint16{80, 443, 22} {
		for _, host := range []string{"a.example", "x.a.example", "b.example", "local", "host.forage.internal", "other.test"} {
			all = append(all, policy.Request{Host: host, Port: port})
		}
		for _, addr := range []string{"8.8.8.8", "10.0.0.1", "1.1.1.1"} {
			all = append(all, policy.Request{Addr: netip.MustParseAddr(addr), Port: port})
		}
	}
	return rapid.SliceOfNDistinct(rapid.SampledFrom(all), 3, 3, rapid.ID).Draw(t, "destinations")
}

func requestsTo(to policy.Request) (all []policy.Request) {
	for _, method := range []string{"GET", "POST", "DELETE", "get", "PURGE"} {
		for _, path := range []string{
			"/", "/a", "/A", "/a/", "/a/b", "/a/bc", "/a/x/c", "/x/b", "/a%2fb", "/a/%62", "/a/../a/b", "//a/b", "/z", "/a/;x/b", "/a\\b", "/a/%2e%2e/x/b",
			"/a/b/info/refs", "/a/b.git/git-receive-pack", "/a/x/git-upload-pack", "/\x01",
		} {
			for _, query := range []string{"", "service=git-upload-pack", "service=git-receive-pack"} {
				if query != "" && !strings.HasSuffix(path, "/info/refs") {
					continue
				}
				r := to
				r.Method, r.Path, r.Query = method, path, query
				all = append(all, r)
			}
		}
	}
	return all
}

func mustCompile(t *rapid.T, n forage.Network) policy.Policy {
	p, err := policy.Compile(n)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// everything is every question there is about a destination: by name alone,
// as a connection and as requests.
func everything(to policy.Request) []policy.Request {
	all := append(requestsTo(to), to)
	if to.Host != "" {
		all = append(all, policy.Request{Host: to.Host})
	}
	return all
}

func TestOrderMeansNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := someNetwork.Draw(t, "network")
		n.Monitor = rapid.Bool().Draw(t, "monitor")
		shuffled := n
		shuffled.Allow = rapid.Permutation(n.Allow).Draw(t, "allow shuffled")
		shuffled.Rules = rapid.Permutation(n.Rules).Draw(t, "rules shuffled")
		p, q := mustCompile(t, n), mustCompile(t, shuffled)
		for _, to := range destinations(t) {
			for _, r := range everything(to) {
				if diff := cmp.Diff(policy.Decide(p, r), policy.Decide(q, r)); diff != "" {
					t.Fatalf("%+v (-as written +shuffled):\n%s", r, diff)
				}
			}
		}
	})
}

// TestADenyNeverAllowsMore: nor is any connection less looked into.
func TestADenyNeverAllowsMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := someNetwork.Draw(t, "network")
		deny := someRule.Filter(func(r forage.Rule) bool { return r.Git == nil }).Draw(t, "one more")
		deny.Deny = true
		more := n
		more.Rules = append(slices.Clone(n.Rules), deny)
		p, q := mustCompile(t, n), mustCompile(t, more)
		for _, to := range destinations(t) {
			for _, r := range everything(to) {
				was, is := policy.Decide(p, r), policy.Decide(q, r)
				if is.Verdict > was.Verdict || r.Port != 0 && is.Verdict == policy.Allow && was.Inspect && !is.Inspect {
					t.Fatalf("%+v: %+v became %+v", r, was, is)
				}
				addr := netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), max(r.Port, 1))
				was, is = policy.CheckAddr(p, was, addr, policy.Private), policy.CheckAddr(q, is, addr, policy.Private)
				if is.Verdict > was.Verdict {
					t.Fatalf("%+v at %v: %+v became %+v", r, addr, was, is)
				}
			}
		}
	})
}

// TestDenyBeatsAllow: the same rule that denies, written anywhere, is the stronger one.
func TestDenyBeatsAllow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := someNetwork.Draw(t, "network")
		rule := someRule.Filter(func(r forage.Rule) bool { return r.Git == nil }).Draw(t, "rule")
		rule.Deny = false
		opposite := rule
		opposite.Deny = true
		alone := mustCompile(t, forage.Network{Mode: forage.NetworkRestricted, Rules: []forage.Rule{rule}})
		n.Rules = append(slices.Clone(n.Rules), rule)
		with := mustCompile(t, n)
		n.Rules = append(slices.Clone(n.Rules), opposite)
		both := mustCompile(t, n)
		for _, to := range destinations(t) {
			for _, r := range requestsTo(to) {
				decided := policy.Decide(with, r)
				if policy.Decide(alone, r).Verdict != policy.Allow || decided.Verdict != policy.Allow || decided.Rule != policy.Decide(alone, r).Rule {
					continue
				}
				if got := policy.Decide(both, r); got.Verdict != policy.Deny {
					t.Fatalf("%+v: %+v", r, got)
				}
			}
		}
	})
}

// TestConnectionsAreSound: nothing is refused by its connection, or its name,
// that would be allowed as a request; and what is not looked into is allowed whole.
func TestConnectionsAreSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := mustCompile(t, someNetwork.Draw(t, "network"))
		for _, to := range destinations(t) {
			conn := policy.Decide(p, to)
			if to.Host != "" && conn.Verdict == policy.Allow && policy.Decide(p, policy.Request{Host: to.Host}).Verdict != policy.Allow {
				t.Fatalf("%+v is allowed and its name is not", to)
			}
			for _, r := range requestsTo(to) {
				switch d := policy.Decide(p, r); {
				case d.Verdict == policy.Allow && conn.Verdict != policy.Allow:
					t.Fatalf("%+v is %+v on a connection that is %+v", r, d, conn)
				case d.Verdict != policy.Allow && conn.Verdict == policy.Allow && !conn.Inspect:
					t.Fatalf("%+v is %+v on a connection that is not looked into: %+v", r, d, conn)
				case d.Push != nil && (len(d.Push.Push) == 0 || d.Verdict != policy.Allow):
					t.Fatalf("%+v: %+v", r, d)
				}
			}
		}
	})
}

// TestMonitorHidesNothing: what would have been denied says by what, and
// walls stand.
func TestMonitorHidesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := someNetwork.Draw(t, "network")
		p := mustCompile(t, n)
		n.Monitor = true
		q := mustCompile(t, n)
		for _, to := range destinations(t) {
			for _, r := range everything(to) {
				strict, lax := policy.Decide(p, r), policy.Decide(q, r)
				want := strict
				wall := n.Mode == forage.NetworkNone || slices.Contains([]string{
					policy.RuleMalformed, policy.RulePrivate, policy.RuleLocalName, policy.RuleReserved,
				}, strict.Rule) || strict.Rule == policy.RuleDefaultDeny && r.Host == policy.HostName && !lax.Monitored
				if strict.Verdict == policy.Deny && !wall {
					want.Verdict, want.Monitored = policy.Allow, true
				}
				if diff := cmp.Diff(want, lax); diff != "" {
					t.Fatalf("%+v (-want +got):\n%s", r, diff)
				}
				addr := netip.AddrPortFrom(netip.MustParseAddr("169.254.169.254"), 80)
				if got := policy.CheckAddr(q, lax, addr, policy.Metadata); got.Verdict != policy.Deny {
					t.Fatalf("%+v leads to a metadata service: %+v", r, got)
				}
			}
		}
	})
}
