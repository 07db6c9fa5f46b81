package policy

import (
	"fmt"
	"net/netip"
	"strings"
)

// Decide judges r by p. It looks nothing up: what a name leads to is judged
// by CheckAddr afterwards.
func Decide(p Policy, r Request) Decision {
	switch {
	case p.mode == modeZero:
		return denied(RuleDefaultDeny, "no network policy was given")
	case p.mode == modeNone:
		return denied(RuleNone, "this sandbox has no network")
	case r.Host != "" && !r.Addr.IsValid():
		return decideName(p, r)
	case r.Host == "" && r.Addr.IsValid() && r.Port != 0:
		return decideAddr(p, r)
	}
	return denied(RuleMalformed, "expected a name, or an address and a port")
}

func decideName(p Policy, r Request) Decision {
	if name, err := Canonical(r.Host); err != nil || name != r.Host {
		return denied(RuleMalformed, "not a host name in its canonical form")
	}
	if r.Host != HostName && isReserved(r.Host) {
		return denied(RuleReserved, fmt.Sprintf("%s never leaves the host; its own services are %s:PORT", r.Host, HostName))
	}
	if found, ok := match(p.names[r.Host], r.Port); ok {
		return Decision{Verdict: Allow, Rule: found.text, Named: found.port != 0 && found.port == r.Port}
	}
	if r.Host == HostName {
		return denied(RuleDefaultDeny, fmt.Sprintf("the host's own services have to be allowed with their port, as %s:PORT", HostName))
	}
	if found, ok := matchSuffix(p.under, r); ok {
		return Decision{Verdict: Allow, Rule: found.text}
	}
	switch {
	case isLocal(r.Host) && !r.Pinned:
		return denied(RuleLocalName, fmt.Sprintf("a name without a dot has to be allowed with its port, as %s:PORT", r.Host))
	case p.mode == modeFull:
		return Decision{Verdict: Allow, Rule: RuleFull}
	}
	return denied(RuleDefaultDeny, "no rule allows "+destination(r))
}

func decideAddr(p Policy, r Request) Decision {
	if r.Addr.Zone() != "" || r.Addr.Is4In6() {
		return denied(RuleMalformed, "an address with a zone or in mapped form can't be judged")
	}
	found, ok := match(p.addrs[r.Addr], r.Port)
	class := Classify(r.Addr)
	switch {
	case ok && (class == Public || found.port == r.Port):
		return Decision{Verdict: Allow, Rule: found.text, Named: found.port == r.Port}
	case class != Public:
		return denied(RulePrivate, notPublic(r.Addr, r.Port, class))
	case p.mode == modeFull:
		return Decision{Verdict: Allow, Rule: RuleFull}
	}
	return denied(RuleDefaultDeny, "no rule allows the address "+r.Authority())
}

// CheckAddr judges one address that was found for a destination that d has
// allowed, just before it is dialled. class is Classify(addr.Addr()), or what
// the caller knows better (OnLink). What is not public passes only if a rule names it, by
// address and port, or if d named its destination with the port and the
// address is an ordinary private one: never loopback, link-local or metadata.
func CheckAddr(p Policy, d Decision, addr netip.AddrPort, class Class) Decision {
	ip := addr.Addr()
	if d.Verdict != Allow {
		return d
	}
	if !ip.IsValid() || ip.Zone() != "" || ip.Is4In6() || addr.Port() == 0 {
		return denied(RuleMalformed, "the answer is not an address that can be judged")
	}
	if class == Public || (d.Named && class.nameable()) {
		return d
	}
	if found, ok := match(p.addrs[ip], addr.Port()); ok && found.port == addr.Port() {
		return Decision{Verdict: Allow, Rule: found.text, Named: true}
	}
	return denied(RulePrivate, notPublic(ip, addr.Port(), class))
}

// match finds the rule for port: the one that names it before one for any
// port. Port 0 asks about a name alone, and any rule answers that.
func match(rules []rule, port uint16) (rule, bool) {
	var anyPort *rule
	for i, r := range rules {
		if r.port == port || port == 0 {
			return rules[i], true
		}
		if r.port == 0 && anyPort == nil {
			anyPort = &rules[i]
		}
	}
	if anyPort != nil {
		return *anyPort, true
	}
	return rule{}, false
}

// matchSuffix tries the domains that r.Host is below, the nearest first.
func matchSuffix(under map[string][]rule, r Request) (rule, bool) {
	for rest := r.Host; ; {
		_, parent, ok := strings.Cut(rest, ".")
		if !ok {
			return rule{}, false
		}
		if found, ok := match(under[parent], r.Port); ok {
			return found, true
		}
		rest = parent
	}
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
