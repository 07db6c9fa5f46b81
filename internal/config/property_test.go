package config_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"forage"
	"forage/internal/config"
	"forage/internal/policy"
)

// entries are what the networks of TestTightenNeverLoosens are made of: few
// hosts and ports, so that they meet.
var entries = rapid.SliceOfN(rapid.SampledFrom([]string{
	"a.example", "a.example:443", "*.a.example", "*.a.example:443", "x.a.example", "x.a.example:443", "x.a.example:80",
	"*.x.a.example", "*.x.a.example:80", "A.example.", "b.example:443", "*.example",
	"8.8.8.8", "8.8.8.8:443", "10.0.0.1:443", "10.0.0.1:80", "[2620:fe::fe]:443", "2620:fe::fe", "[2606:4700::1]:443",
	"2606:4700::1", "1.1.1.1", "1.1.1.1:443", "host.forage.internal:80", "local:80",
}), 0, 5)

// ruleOf makes rules of few hosts, methods and paths.
var ruleOf = rapid.Custom(func(t *rapid.T) forage.Rule {
	return forage.Rule{
		Host:    entries.Filter(func(l []string) bool { return len(l) > 0 }).Draw(t, "hosts")[0],
		Methods: rapid.SampledFrom([][]string{nil, {"GET"}, {"POST"}}).Draw(t, "methods"),
		Paths:   rapid.SampledFrom([][]string{nil, {"/a"}, {"/**"}}).Draw(t, "paths"),
		Deny:    rapid.Bool().Draw(t, "deny"),
	}
})

// ruleTOML is a rule as a project's file has it, which denies.
func ruleTOML(r forage.Rule) string {
	text := "[[rules]]\ndeny = true\nhost = '" + r.Host + "'\n"
	if r.Methods != nil {
		text += "methods = ['" + r.Methods[0] + "']\n"
	}
	if r.Paths != nil {
		text += "paths = ['" + r.Paths[0] + "']\n"
	}
	return text
}

// requests are what is then asked for.
func requests() []policy.Request {
	var all []policy.Request
	for _, port := range []uint16{80, 443, 22} {
		for _, host := range []string{"a.example", "x.a.example", "y.x.a.example", "b.example", "example", "local", "host.forage.internal"} {
			all = append(all, policy.Request{Host: host, Port: port})
		}
		for _, addr := range []string{"8.8.8.8", "10.0.0.1", "2620:fe::fe", "2606:4700::1", "1.1.1.1", "169.254.169.254"} {
			all = append(all, policy.Request{Addr: netip.MustParseAddr(addr), Port: port})
		}
	}
	for _, r := range slices.Clone(all) {
		for _, method := range []string{"GET", "POST"} {
			for _, path := range []string{"/a", "/b"} {
				r.Method, r.Path = method, path
				all = append(all, r)
			}
		}
	}
	return all
}

// TestTightenNeverLoosens: whatever a project's file says, nothing is allowed
// after it that was not allowed before; private addresses behind names included.
func TestTightenNeverLoosens(t *testing.T) {
	modes := rapid.SampledFrom([]forage.NetworkMode{"", forage.NetworkNone, forage.NetworkRestricted, forage.NetworkFull})
	asked := requests()
	rapid.Check(t, func(r *rapid.T) {
		before := forage.Template{Name: "t", Network: forage.Network{
			Mode: modes.Draw(r, "mode"), Allow: entries.Draw(r, "allow"), Rules: rapid.SliceOfN(ruleOf, 0, 3).Draw(r, "rules"),
		}}
		text := ""
		if mode := modes.Draw(r, "project mode"); mode != "" {
			text += "network = '" + string(mode) + "'\n"
		}
		if rapid.Bool().Draw(r, "project allows") {
			text += "allowedHosts = ['" + strings.Join(entries.Draw(r, "project allow"), "', '") + "']\n"
		}
		for _, rule := range rapid.SliceOfN(ruleOf, 0, 2).Draw(r, "project rules") {
			text += ruleTOML(rule)
		}
		project, err := loadProject(t, strings.ReplaceAll(text, "['']", "[]"))
		if err != nil {
			r.Fatalf("%s: %v", text, err)
		}
		after, err := config.Tighten(before, project)
		if err != nil {
			return
		}
		compare(r, compile(r, before.Network), compile(r, after.Network), asked)
	})
}

func compile(r *rapid.T, n forage.Network) policy.Policy {
	p, err := policy.Compile(n)
	if err != nil {
		r.Fatal(err)
	}
	return p
}

func compare(r *rapid.T, before, after policy.Policy, asked []policy.Request) {
	for _, request := range asked {
		was, is := policy.Decide(before, request), policy.Decide(after, request)
		if is.Verdict > was.Verdict || is.Verdict == policy.Allow && was.Inspect && !is.Inspect {
			r.Fatalf("%+v: %+v became %+v", request, was, is)
		}
		for _, text := range []string{"1.2.3.4", "10.0.0.1", "192.168.0.1", "127.0.0.1", "169.254.169.254"} {
			addr := netip.AddrPortFrom(netip.MustParseAddr(text), request.Port)
			was := policy.CheckAddr(before, was, addr, policy.Classify(addr.Addr()))
			is := policy.CheckAddr(after, is, addr, policy.Classify(addr.Addr()))
			if is.Verdict > was.Verdict {
				r.Fatalf("%+v at %s: %+v became %+v", request, addr, was, is)
			}
		}
	}
}

func FuzzProject(f *testing.F) {
	f.Add("network = 'none'\nallowedHosts = ['a.example']\n[forbid]\nmounts = ['/a/**']")
	f.Add("resourceLimits.tasksMax = 0x10\n[[a.b]]\n[a.b.c]\n\"\" = 1")
	template := base()
	f.Fuzz(func(t *testing.T, text string) {
		project, err := loadProject(t, text)
		if err != nil {
			if !strings.Contains(err.Error(), config.ProjectFile) || len(err.Error()) > 4096 {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		after, err := config.Tighten(template, project)
		if err == nil && after.Limits.TasksMax > template.Limits.TasksMax {
			t.Errorf("%q: %+v", text, after)
		}
	})
}
