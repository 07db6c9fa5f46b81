package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Decide judges r by p. It looks nothing up: what a name leads to is judged
// by CheckAddr afterwards.
//
// Of all that allows, the most special host decides alone: a name before
// "*.suffix", a longer suffix before a shorter one, with the port before without; rules
// before the same host on the list of allowed ones. What none of its rules allows is denied. What
// one allows is denied by a rule that denies it and is at least as special: by
// its name, whatever the ports; then its path; then whether it names methods. The order of rules
// means nothing, and another rule that denies never allows anything.
func Decide(p Policy, r Request) Decision {
	d, wall := judge(p, r)
	if d.Verdict == Deny && p.monitor && !wall {
		d.Verdict, d.Monitored = Allow, true
	}
	return d
}

// judge is Decide without monitoring. A denial that is a wall is no matter of rules.
func judge(p Policy, r Request) (d Decision, wall bool) {
	switch {
	case p.mode == modeZero:
		return denied(RuleDefaultDeny, "no network policy was given"), true
	case p.mode == modeNone:
		return denied(RuleNone, "this sandbox has no network"), true
	case r.Host != "" && !r.Addr.IsValid():
		if name, err := Canonical(r.Host); err != nil || name != r.Host {
			return denied(RuleMalformed, "not a host name in its canonical form"), true
		}
		if r.Host != HostName && isReserved(r.Host) {
			return denied(RuleReserved, fmt.Sprintf("%s never leaves the host; its own services are %s:PORT", r.Host, HostName)), true
		}
	case r.Host == "" && r.Addr.IsValid() && r.Port != 0:
		if r.Addr.Zone() != "" || r.Addr.Is4In6() {
			return denied(RuleMalformed, "an address with a zone or in mapped form can't be judged"), true
		}
	default:
		return denied(RuleMalformed, "expected a name, or an address and a port"), true
	}
	all := p.rulesFor(r)
	if r.Port == 0 {
		return p.judgeName(r, all)
	}
	return p.judgePort(r, all)
}

// candidate is a rule that is about the host of a request.
type candidate struct {
	*rule
	rank int // how special its name is
}

// Ranks of names; that of a suffix is its length.
const (
	rankFull  = -1
	rankExact = maxName + 1
)

// rulesFor are the rules about the host of r, whatever their ports.
func (p Policy) rulesFor(r Request) (all []candidate) {
	for _, rule := range p.about[r.Dest()] {
		all = append(all, candidate{rule, rankExact})
	}
	for _, parent, ok := strings.Cut(r.Host, "."); ok && r.Host != HostName; _, parent, ok = strings.Cut(parent, ".") {
		for _, rule := range p.about["*."+parent] {
			all = append(all, candidate{rule, len(parent)})
		}
	}
	return all
}

// judgeName answers a DNS question: whether anything at all may be asked of
// that name, on whatever port.
func (p Policy) judgeName(r Request, all []candidate) (Decision, bool) {
	ports := []uint16{0}
	for _, c := range all {
		ports = append(ports, c.port)
	}
	slices.Sort(ports)
	ports = slices.Compact(ports)
	other := uint16(1) // stands for every port that no rule names
	for slices.Contains(ports, other) {
		other++
	}
	ports[0] = other
	var refused Decision
	var wall bool
	for i, port := range ports {
		at := r
		at.Port = port
		d, w := p.judgePort(at, all)
		if d.Verdict == Allow {
			return Decision{Verdict: Allow, Rule: d.Rule, Inspect: d.Inspect}, false
		}
		if i == 0 {
			refused, wall = d, w
		}
	}
	if refused.Rule == RuleDefaultDeny && r.Host != HostName {
		refused.Reason = "no rule allows " + destination(r)
	}
	return refused, wall
}

// judgePort judges a connection or a request to a host and port by the rules about the host.
func (p Policy) judgePort(r Request, all []candidate) (Decision, bool) {
	var allows, denies []candidate
	for _, c := range all {
		switch {
		case c.port != 0 && c.port != r.Port:
		case c.deny:
			denies = append(denies, c)
		default:
			allows = append(allows, c)
		}
	}
	allows = mostSpecial(allows)
	if len(allows) == 0 {
		if d, wall := unnamed(r); wall {
			return d, true
		}
		if p.mode == modeFull {
			allows = []candidate{{&rule{text: RuleFull, entry: true}, rankFull}}
		}
	}
	if len(allows) > 0 { // what is less special than what allows denies nothing of it
		denies = slices.DeleteFunc(denies, func(c candidate) bool { return c.rank < allows[0].rank })
	}
	if r.Method == "" {
		return connection(r, allows, denies), false
	}
	return judgeRequest(r, allows, denies), false
}

// unnamed says what can't be allowed without being named.
func unnamed(r Request) (d Decision, wall bool) {
	switch {
	case r.Host == HostName:
		return denied(RuleDefaultDeny, fmt.Sprintf("the host's own services have to be allowed with their port, as %s:PORT", HostName)), true
	case r.Host != "" && isLocal(r.Host) && !r.Pinned:
		return denied(RuleLocalName, fmt.Sprintf("a name without a dot has to be allowed with its port, as %s:PORT", r.Host)), true
	case r.Host != "":
		return Decision{}, false
	}
	class := Classify(r.Addr)
	return denied(RulePrivate, notPublic(r.Addr, r.Port, class)), class != Public
}

// mostSpecial are those of allows that decide alone.
func mostSpecial(allows []candidate) []candidate {
	rank, port, entry := rankFull, false, true
	for _, c := range allows {
		switch p := c.port != 0; {
		case c.rank > rank, c.rank == rank && p && !port:
			rank, port, entry = c.rank, p, c.entry
		case c.rank == rank && p == port:
			entry = entry && c.entry
		}
	}
	return slices.DeleteFunc(allows, func(c candidate) bool {
		return c.rank != rank || (c.port != 0) != port || c.entry != entry
	})
}

// connection judges a connection, on which there may be requests.
func connection(r Request, allows, denies []candidate) Decision {
	best, special := candidate{}, grade{}
	inspect := !wholly(allows, denies)
	for _, c := range allows {
		inspect = inspect || c.inspect
		if g := c.most(); best.rule == nil || g.compare(special) > 0 {
			best, special = c, g
		}
	}
	if best.rule == nil {
		return undeniable(r, denies)
	}
	for _, c := range denies {
		if c.whole() && (c.rank > best.rank || c.most().compare(special) >= 0) {
			return byRule(c)
		}
	}
	d := allowed(r, best)
	d.Inspect = inspect
	return d
}

// undeniable is a connection that nothing allows.
func undeniable(r Request, denies []candidate) Decision {
	for _, c := range denies {
		if c.whole() {
			return byRule(c)
		}
	}
	if r.Host == "" {
		return denied(RuleDefaultDeny, "no rule allows the address "+r.Authority())
	}
	return denied(RuleDefaultDeny, "no rule allows "+destination(r))
}

// allowed is the verdict of a rule that allows.
func allowed(r Request, c candidate) Decision {
	return Decision{Verdict: Allow, Rule: c.text, Named: c.rank == rankExact && c.port != 0 && c.port == r.Port, Port: c.port != 0}
}

func byRule(c candidate) Decision { return denied(c.text, "a rule denies it: "+c.text) }

// CheckAddr judges one address that was found for a destination that d has
// allowed, just before it is dialled. class is Classify(addr.Addr()), or what
// the caller knows better (OnLink). What is not public passes only if a rule names it, by
// address and port, or if d named its destination with the port and the
// address is an ordinary private one: never loopback, link-local or metadata. A rule
// that denies all of an address denies it for every name.
func CheckAddr(p Policy, d Decision, addr netip.AddrPort, class Class) Decision {
	ip := addr.Addr()
	if d.Verdict != Allow {
		return d
	}
	if !ip.IsValid() || ip.Zone() != "" || ip.Is4In6() || addr.Port() == 0 {
		return denied(RuleMalformed, "the answer is not an address that can be judged")
	}
	named := ""
	for _, r := range p.about[ip.String()] {
		switch {
		case r.port != 0 && r.port != addr.Port():
		case r.deny && r.whole() && !p.monitor:
			return denied(r.text, "a rule denies its address: "+r.text)
		case r.deny && r.whole() && !d.Monitored:
			d.Monitored, d.Rule, d.Reason = true, r.text, "a rule denies its address: "+r.text
		case !r.deny && r.port != 0 && (named == "" || r.text < named):
			named = r.text
		}
	}
	if class == Public || (d.Named && class.nameable()) {
		return d
	}
	if named == "" {
		return denied(RulePrivate, notPublic(ip, addr.Port(), class))
	}
	d.Named = true
	if !d.Monitored {
		d.Rule = named
	}
	return d
}

func denied(rule, reason string) Decision {
	return Decision{Verdict: Deny, Rule: rule, Reason: reason}
}

func notPublic(addr netip.Addr, port uint16, class Class) string {
	return fmt.Sprintf("%s is %s: it has to be allowed with its port, as %s", addr, class, netip.AddrPortFrom(addr, port))
}

func destination(r Request) string {
	if r.Port == 0 {
		return r.Host
	}
	return r.Authority()
}
