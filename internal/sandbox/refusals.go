package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"forage"
	"forage/internal/egress"
	"forage/internal/hostset"
	"forage/internal/policy"
	"forage/internal/provider"
	"forage/internal/store"
)

// Refusal is a destination that a sandbox was refused.
type Refusal = egress.Refused

// RefusalLine is a refusal in one line. The name of the host was said inside: it is not escaped
// yet.
func RefusalLine(r Refusal) string {
	where := r.Host
	if r.Port != 0 {
		where = net.JoinHostPort(r.Host, strconv.Itoa(int(r.Port)))
	}
	times := ""
	if r.Count > 1 {
		times = fmt.Sprintf(" (%d times)", r.Count)
	}
	return fmt.Sprintf("refused: %s%s   %s", where, times, wayText(r))
}

// maxRefusals is how many refusals are told in words.
const maxRefusals = 5

// tellRefusals says what was refused, and what allows it.
func (s *Service) tellRefusals(name string, all []Refusal) {
	for _, refusal := range all[:min(len(all), maxRefusals)] {
		s.notify(RefusalLine(refusal))
	}
	if more := len(all) - maxRefusals; more > 0 {
		s.notify(fmt.Sprintf("%d more were refused: `forage-ctl audit %s --denied` has them", more, name))
	}
}

// shown notes what the user sees as refused last: the agent can have something else refused in the
// moment before --allow-last. Without the note that asks once more.
func (s *Service) shown(name string, all []Refusal) {
	if len(all) > 0 {
		_ = writeWhole(s.Places.Of(name).Shown, all[0].Allow, false)
	}
}

// refusals asks the supervisor what was refused.
func (s *Service) refusals(ctx context.Context, record store.Record) ([]Refusal, error) {
	answer, err := s.client(record.Name).Status(ctx)
	return s.withSets(ctx, record.Plan, answer.Refused), err
}

// withSets has the sets allow what belongs to one. The sets that the project's files or the command
// speak for are looked for once on this host, if there is something that could belong to them.
func (s *Service) withSets(ctx context.Context, plan forage.Plan, all []Refusal) []Refusal {
	if len(all) == 0 {
		return nil
	}
	known := s.knownSets()
	proposed, _ := proposedSets(plan.Workspaces())
	if argv := plan.Spec.Command; len(argv) > 0 {
		if set, ok := commandSets[path.Base(argv[0])]; ok {
			proposed = append(proposed, set)
		}
	}
	for _, set := range proposed {
		if _, asked := known[set]; asked {
			continue
		}
		caller := s.toolCaller(hostileOf(plan))
		caller.Get = nil // the project's files are no reason to ask a server
		found, _ := hostset.Resolve(ctx, set[1:], caller)
		known[set] = append([]string{}, found.Hosts...) // none: it is not asked for again
		s.rememberSets(known)
	}
	for _, name := range provider.SetNames() {
		if hosts := provider.SetHosts(name); hosts != nil {
			known["@"+name] = hosts
		}
	}
	for name, hosts := range s.Config.HostSets {
		if !slices.Contains(hosts, "@"+name) {
			known["@"+name] = hosts
		}
	}
	var entries []setPolicy
	for _, name := range slices.Sorted(maps.Keys(known)) {
		network := forage.Network{Mode: forage.NetworkRestricted, Allow: []string{name}, Sets: known}
		if rules, err := policy.Compile(network); err == nil {
			entries = append(entries, setPolicy{name, rules})
		}
	}
	all = slices.Clone(all)
	for i, r := range all {
		asked := policy.Request{Host: r.Host, Port: cmp.Or(r.Port, 443)}
		for _, set := range entries {
			if r.Allow != "" && policy.Decide(set.rules, asked).Verdict == policy.Allow {
				all[i].Allow = set.name
				break
			}
		}
	}
	return all
}

// setPolicy is a policy that allows one set alone.
type setPolicy struct {
	name  string
	rules policy.Policy
}

// lastRefused is what allows what was refused last, beside what change allows.
func (s *Service) lastRefused(ctx context.Context, record store.Record, change NetworkChange) ([]string, forage.NetworkMode, error) {
	var all []Refusal
	if s.alive(record.Name) {
		var err error
		if all, err = s.refusals(ctx, record); err != nil {
			return nil, "", err
		}
	}
	if len(all) == 0 {
		return nil, "", forage.WithHint(
			forage.Errorf(forage.ErrRefused, "nothing was refused since %s was started, or all of it is allowed now", record.Name),
			"`forage-ctl audit "+record.Name+" --denied` shows what was refused before")
	}
	last := all[0]
	if last.Allow == "" {
		return nil, "", forage.Errorf(forage.ErrRefused, "what was refused last can't be allowed so: %s", RefusalLine(last))
	}
	if !policy.IsSet(last.Allow) && !mayBeLast(last) {
		return nil, "", forage.WithHint(
			forage.Errorf(forage.ErrRefused, "what was refused last is not on the internet: %s", RefusalLine(last)),
			fmt.Sprintf("the agent decides what is last; if it is what you mean, name it: forage-ctl network %s --allow %s", record.Name, last.Allow))
	}
	var shown string
	if readJSON(s.Places.Of(record.Name).Shown, &shown) != nil || shown != last.Allow {
		s.shown(record.Name, all)
		if len(all) > 1 { // else there is nothing to take it for
			return nil, "", forage.WithHint(
				forage.Errorf(forage.ErrRefused, "what was refused last was not shown to you before: %s", RefusalLine(last)),
				fmt.Sprintf("if it is what you mean: the same command again, or forage-ctl network %s --allow %s", record.Name, last.Allow))
		}
	}
	return append(slices.Clone(change.Allow), last.Allow), cmp.Or(change.Mode, last.Mode), nil
}

// mayBeLast says whether what was refused may be allowed without being named: the agent can have
// something else refused in the moment before. A service of the host, of its network or of its
// cloud is never meant by chance.
func mayBeLast(r Refusal) bool {
	if addr, ok := policy.ParseAddr(r.Host); ok {
		return policy.Classify(addr) == policy.Public
	}
	return strings.Contains(r.Host, ".") && r.Host != policy.HostName
}

// wayText says what allows it.
func wayText(r Refusal) string {
	switch {
	case r.Private != "":
		return fmt.Sprintf("allow: privateHosts = [%q] below [network] in your configuration", r.Private)
	case r.Allow == "":
		return r.Reason
	case r.Mode != "":
		return fmt.Sprintf("allow: --network %s --allow %s", r.Mode, r.Allow)
	}
	return "allow: --allow " + r.Allow
}
