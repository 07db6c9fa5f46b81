package policy

import (
	"fmt"
	"slices"
	"strings"

	"forage"
)

// Explanation is a decision for people: what was decided, of the connection too, and
// what would change it.
type Explanation struct {
	Decision
	// Connection is what is decided before there is a request, of its host and port.
	Connection Decision
	// Changes are each enough to turn the verdict around, the narrowest first. Where
	// there is none no rule can: Reason says why.
	Changes []Change
}

// Change is a change to a network as it is written, all of it together.
type Change struct {
	Mode   forage.NetworkMode `json:"network,omitempty"`      // to set
	Allow  string             `json:"allowedHosts,omitempty"` // to add
	Rule   *forage.Rule       `json:"rule,omitempty"`         // to add
	Remove string             `json:"remove,omitempty"`       // the rule, or allowed host, that Decision.Rule names
}

// Explain decides as Decide does and says why, and what would change it. In
// monitor mode what would be denied is explained as denied.
func Explain(p Policy, r Request) Explanation {
	e := Explanation{Decision: Decide(p, r), Connection: Decide(p, Request{Host: r.Host, Addr: r.Addr, Port: r.Port, Pinned: r.Pinned})}
	p.monitor = false
	strict, _ := judge(p, r)
	for _, c := range proposals(p, r, strict) {
		changed, err := p.with(c)
		if err != nil {
			continue
		}
		if d, _ := judge(changed, r); d.Verdict != strict.Verdict {
			e.Changes = append(e.Changes, c)
		}
	}
	return e
}

// proposals are changes that may turn a decision around.
func proposals(p Policy, r Request, d Decision) []Change {
	if r.Port == 0 {
		return nil
	}
	method, path := proposed(r)
	host := hostText(r)
	if d.Verdict == Allow {
		changes := []Change{{Rule: &forage.Rule{Host: host, Deny: true}}, {Remove: d.Rule}}
		if method != nil || path != nil {
			narrow := Change{Rule: &forage.Rule{Host: host, Methods: method, Paths: path, Deny: true}}
			changes = append([]Change{narrow}, changes...)
		}
		return changes
	}
	changes := []Change{{Remove: d.Rule}}
	claimed := ""
	for _, c := range p.claiming(r) {
		claimed = c.host
	}
	mode := forage.NetworkMode("")
	if p.mode == modeNone {
		mode = forage.NetworkRestricted
	}
	switch git := gitProposal(r); {
	case claimed != "" && git != nil:
		changes = append(changes, Change{Rule: &forage.Rule{Host: claimed, Git: git}}) // never a path: pushes would not be judged
	case claimed != "" && r.Method != "" && path == nil: // what can't be written is not worth allowing all of the host
	case claimed != "":
		changes = append(changes, Change{Rule: &forage.Rule{Host: claimed, Methods: method, Paths: path}})
	default:
		changes = append(changes, Change{Mode: mode, Allow: host})
	}
	return changes
}

// claiming are the rules that alone decide about the host and port of r.
func (p Policy) claiming(r Request) []candidate {
	return mostSpecial(slices.DeleteFunc(p.rulesFor(r), func(c candidate) bool {
		return c.deny || c.port != 0 && c.port != r.Port
	}))
}

// proposed are the methods and paths of a rule for that request alone, nil
// where the request has none that can be written.
func proposed(r Request) (methods, paths []string) {
	if checkMethod(r.Method) == nil {
		methods = []string{r.Method}
	}
	if all, ok := readings(r.Path, false); ok && r.Method != "" {
		path := "/" + strings.Join(all[0], "/")
		if !strings.Contains(path, "*") && checkGlob(path) == nil {
			paths = []string{path}
		}
	}
	return methods, paths
}

// hostText is how the destination of r is allowed: with its port where that has
// to be named, or is neither of the web's.
func hostText(r Request) string {
	named := r.Port != 443 && r.Port != 80 || r.Host == HostName || r.Host != "" && isLocal(r.Host) ||
		r.Host == "" && Classify(r.Addr) != Public
	switch {
	case named:
		return r.Authority()
	case r.Host == "" && r.Addr.Is6():
		return "[" + r.Addr.String() + "]"
	}
	return r.Dest()
}

// gitProposal is a rule for the repository that r asks for; nil if r is no request of git's.
func gitProposal(r Request) *forage.GitRule {
	all, ok := readings(r.Path, false)
	if !ok || len(all) != 1 {
		return nil
	}
	repo, service, ok := splitGit(all[0])
	if !ok {
		return nil
	}
	rule := &forage.GitRule{Repos: []string{strings.Join(repo, "/")}}
	if service == gitReceive || service == gitRefs && strings.Contains(r.Query, gitReceive) {
		rule.Push = []string{"agent/*"}
	}
	return rule
}

// with is the policy with a change made to it.
func (p Policy) with(c Change) (Policy, error) {
	about := p.about
	p.about = make(map[string][]*rule, len(about)+1)
	for at, list := range about {
		p.about[at] = slices.DeleteFunc(slices.Clone(list), func(r *rule) bool { return c.Remove != "" && r.text == c.Remove })
	}
	if c.Mode == forage.NetworkRestricted {
		p.mode = modeRestricted
	}
	if c.Allow != "" {
		r, err := compileEntry(c.Allow)
		if err != nil {
			return p, fmt.Errorf("allowed host %q: %w", c.Allow, err)
		}
		p.add(r)
	}
	if c.Rule != nil {
		r, err := compileRule(*c.Rule)
		if err != nil {
			return p, err
		}
		p.add(r)
	}
	p.sort()
	return p, nil
}
