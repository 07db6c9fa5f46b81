package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"forage"
	"forage/internal/egress"
	"forage/internal/policy"
	"forage/internal/sandbox/plan"
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
		s.Notify(RefusalLine(refusal))
	}
	if more := len(all) - maxRefusals; more > 0 {
		s.Notify(fmt.Sprintf("%d more were refused: `forage-ctl audit %s --denied` has them", more, name))
	}
}

// shown notes what the user sees as refused last: the agent can have something else refused in the
// moment before --allow-last. Without the note that asks once more.
func (s *Service) shown(name string, all []Refusal) {
	if len(all) > 0 {
		_ = store.WriteWhole(s.Host.Places.Of(name).Shown, all[0].Allow, false)
	}
}

// lastRefused is what allows what was refused last, beside what change allows.
func (s *Service) lastRefused(ctx context.Context, record store.Record, change plan.NetworkChange) ([]string, forage.NetworkMode, error) {
	var all []Refusal
	if s.Host.Alive(record.Name) {
		answer, err := s.client(record.Name).Status(ctx)
		if err != nil {
			return nil, "", err
		}
		all = s.Host.WithSets(ctx, record.Plan, answer.Refused)
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
	if store.ReadJSON(s.Host.Places.Of(record.Name).Shown, &shown) != nil || shown != last.Allow {
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
