package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"forage"
)

// rule is one rule, or one entry of an allow list, ready to be compared.
type rule struct {
	target
	text    string // as it is told to people
	host    string // as it was written
	entry   bool   // of an allow list
	deny    bool
	inspect bool
	methods []string  // none is any
	paths   []*glob   // none is any
	git     []gitRepo // a rule about git: nothing else
}

// whole says whether the rule is about every request to its host.
func (r *rule) whole() bool { return len(r.methods)+len(r.paths)+len(r.git) == 0 }

// compileEntry reads one entry of an allow list.
func compileEntry(text string) (*rule, error) {
	t, err := parseTarget(text)
	return &rule{target: t, text: text, host: text, entry: true}, err
}

// compileRule reads one rule; its error is a *RuleError.
func compileRule(r forage.Rule) (*rule, error) {
	if err := checkShape(r); err != nil {
		return nil, err
	}
	t, err := parseTarget(r.Host)
	if err != nil {
		return nil, wrongRule(fmt.Errorf("%.80q: %w", r.Host, err), "host")
	}
	c := &rule{target: t, text: RuleText(r), host: r.Host, deny: r.Deny, inspect: r.Inspect}
	for i, method := range r.Methods {
		if err := checkMethod(method); err != nil {
			return nil, wrongRule(err, "methods", i)
		}
	}
	c.methods = slices.Clone(r.Methods)
	for i, path := range r.Paths {
		globs, err := parseGlobs(path)
		if err != nil {
			return nil, wrongRule(err, "paths", i)
		}
		if r.Deny { // in any case: some servers don't tell them apart
			for _, g := range globs {
				g.lower()
			}
		}
		c.paths = append(c.paths, globs...)
	}
	if r.Git != nil {
		c.git, err = compileGit(*r.Git)
	}
	return c, err
}

func compileGit(r forage.GitRule) ([]gitRepo, error) {
	for i, text := range r.Push {
		if _, err := parseRef(text); err != nil {
			return nil, wrongRule(err, "git", "push", i)
		}
	}
	own := forage.GitRule{Repos: slices.Clone(r.Repos), Push: slices.Clone(r.Push)}
	var repos []gitRepo
	for i, text := range r.Repos {
		g, err := parseRepo(text)
		if err != nil {
			return nil, wrongRule(err, "git", "repos", i)
		}
		repos = append(repos, gitRepo{g, own})
	}
	return repos, nil
}

// RuleText is a rule as decisions name it, in one line: "deny api.example.com DELETE /repos/**".
func RuleText(r forage.Rule) string {
	words := []string{r.Host}
	if r.Deny {
		words = []string{"deny", r.Host}
	}
	if len(r.Methods) > 0 {
		words = append(words, strings.Join(r.Methods, ","))
	}
	if len(r.Paths) > 0 {
		words = append(words, strings.Join(r.Paths, " "))
	}
	if r.Git != nil {
		words = append(words, "git", strings.Join(r.Git.Repos, " "))
		if len(r.Git.Push) > 0 {
			words = append(words, "push", strings.Join(r.Git.Push, " "))
		}
	}
	if r.Inspect {
		words = append(words, "inspect")
	}
	return strings.Join(words, " ")
}

// Compile makes a policy of a network as it is written. Its mode "" is none; the entries it allows
// are "host", "host:port", "*.suffix", "*.suffix:port", "address", "address:port" or "[v6]:port".
// Without a port any port is allowed. "*.suffix" is every name below suffix, not suffix itself.
// What is not public has to be named with its port. "@NAME" stands for the hosts in Sets. The error
// names the entry or the rule, and what was expected of it.
func Compile(network forage.Network) (Policy, error) {
	p := Policy{
		about:   make(map[string][]*rule),
		rules:   len(network.Rules) > 0,
		monitor: network.Monitor,
	}
	switch network.Mode {
	case "", forage.NetworkNone:
		p.mode = modeNone
	case forage.NetworkRestricted:
		p.mode = modeRestricted
	case forage.NetworkFull:
		p.mode = modeFull
	default:
		return Policy{}, fmt.Errorf("network mode %q: expected none, restricted or full", network.Mode)
	}
	for _, text := range network.Allow {
		hosts, err := hostsOf(network, text)
		if err != nil {
			return Policy{}, fmt.Errorf("allowed host %q: %w", text, err)
		}
		for _, host := range hosts {
			r, err := compileEntry(host)
			if err != nil {
				return Policy{}, fmt.Errorf("allowed host %q: %w", host, err)
			}
			r.text = text // also of a set: that is what the user can change
			p.add(r)
		}
	}
	for i, written := range network.Rules {
		hosts, err := hostsOf(network, written.Host)
		for _, host := range hosts {
			one := written
			one.Host = host
			var r *rule
			if r, err = compileRule(one); err != nil {
				break
			}
			r.text = RuleText(written) // also of a set
			p.add(r)
		}
		if err != nil {
			return Policy{}, fmt.Errorf("rule %d (%.200s): %w", i+1, RuleText(written), err)
		}
	}
	p.sort()
	return p, nil
}

// UnknownSets are the sets that a network names and whose hosts it doesn't have, each once.
func UnknownSets(network forage.Network) []string {
	entries := slices.Clone(network.Allow)
	for _, rule := range network.Rules {
		entries = append(entries, rule.Host)
	}
	var names []string
	for _, entry := range entries {
		if _, known := network.Sets[entry]; IsSet(entry) && !known && !slices.Contains(names, entry) {
			names = append(names, entry)
		}
	}
	return names
}

// hostsOf are the hosts that an entry stands for. A network without a mode need not know its sets.
func hostsOf(network forage.Network, entry string) ([]string, error) {
	if !IsSet(entry) {
		return []string{entry}, nil
	}
	hosts, found := network.Sets[entry]
	if !found && network.Mode != "" && network.Mode != forage.NetworkNone {
		return nil, errors.New("the hosts of this set are not known here")
	}
	return hosts, nil
}

// IsSet says whether an entry of an allow list, or the host of a rule, is a set of hosts by name.
func IsSet(entry string) bool { return strings.HasPrefix(entry, "@") }

// sort makes the order in which rules are tried, and so what a decision names
// where several rules say the same, independent of the order in which they are written.
func (p *Policy) sort() {
	for _, list := range p.about {
		slices.SortStableFunc(list, func(a, b *rule) int { return strings.Compare(a.text, b.text) })
	}
}

// add puts a rule where Decide looks for it.
func (p *Policy) add(r *rule) {
	at := r.name
	switch {
	case r.addr.IsValid():
		at = r.addr.String()
	case r.sub:
		at = "*." + r.name
	}
	p.about[at] = append(p.about[at], r)
}
