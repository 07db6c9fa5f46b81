package sandbox

import (
	"fmt"
	"net"
	"strconv"

	"forage/internal/egress"
)

// Refusal is a destination that a sandbox was refused.
type Refusal = egress.Refused

// RefusalLine is a refusal in one line. The name of the host was said inside: it is not escaped yet.
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
