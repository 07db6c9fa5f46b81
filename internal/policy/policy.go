// Package policy holds the rules about what a sandbox may reach, and decides.
// It is pure: plain values in, a decision out. It resolves nothing, opens
// nothing and has no errors at decision time.
//
// A name is judged by Decide before anything is looked up; the addresses that
// the host then finds for it are judged by CheckAddr before one is dialled.
package policy

import (
	"fmt"
	"net/netip"

	"forage"
)

// Verdict is the answer to a request. The zero value denies.
type Verdict uint8

// The verdicts.
const (
	Deny Verdict = iota
	Ask
	Allow
)

func (v Verdict) String() string {
	switch v {
	case Allow:
		return "allow"
	case Ask:
		return "ask"
	default:
		return "deny"
	}
}

// Names of the rules that are built in, as Decision.Rule tells them.
const (
	RuleDefaultDeny = "default-deny"    // no rule allows it
	RuleNone        = "network-none"    // the mode allows nothing
	RuleFull        = "network-full"    // the mode allows everything public
	RuleMalformed   = "malformed"       // not a name or an address that can be judged
	RulePath        = "ambiguous-path"  // servers may read the path differently, and a rule names paths
	RuleReserved    = "reserved-name"   // a name that never leaves the host
	RuleLocalName   = "local-name"      // a name without a dot, not named with its port
	RulePrivate     = "private-address" // not a public address, not named with its port
)

// HostName is the name by which a sandbox knows the host's own loopback
// services. A rule must name it with a port.
const HostName = "host.forage.internal"

// Request is what something inside wants to reach: a name or a literal
// address, never both.
type Request struct {
	Host string     // canonical name: lower case, ASCII (IDNA), no trailing dot
	Addr netip.Addr // literal address, unmapped; valid only when Host is ""
	Port uint16     // 0: a DNS question, asked before a port is known
	// Method and Path are those of an HTTP request, the path as it is on the wire, without
	// query. Both are empty where only a connection is asked for.
	Method, Path string
	// Query is what follows the path, without "?"; it is looked at by rules about git only.
	Query string
	// Pinned says that the host's configuration names the address to dial for
	// this destination ([network] resolve), so a name without a dot is no guess.
	Pinned bool
}

// Dest is the name or the address, without the port.
func (r Request) Dest() string {
	if r.Host != "" || !r.Addr.IsValid() {
		return r.Host
	}
	return r.Addr.String()
}

// Authority is Dest with the port: "example.com:443", "[2001:db8::1]:443".
func (r Request) Authority() string {
	if r.Host == "" && r.Addr.IsValid() {
		return netip.AddrPortFrom(r.Addr, r.Port).String()
	}
	return fmt.Sprintf("%s:%d", r.Host, r.Port)
}

// Decision is a verdict with what made it.
type Decision struct {
	Verdict Verdict
	Rule    string // the rule that decided, as it was written, or a built-in's name: "default-deny"
	Reason  string // for people
	// Inspect says that the verdict on a connection is no more than that some
	// requests on it may be allowed: each has to be judged by itself.
	Inspect bool
	// Push is, on a request that is a git push, what may be pushed; nil on every other.
	Push *forage.GitRule
	// Monitored says that Verdict is Allow only because the policy is in
	// monitor mode; Rule and Reason are those of the denial.
	Monitored bool
	// Named says that the rule names this one destination with its port, so
	// that a private address is what the user meant.
	Named bool
	// Port says that the rule that allows names the port; others are for whatever port.
	Port bool
}

// Policy is a compiled network policy; its zero value denies everything. It
// is immutable and may be shared.
type Policy struct {
	mode    mode
	about   map[string][]*rule // by name, "*.suffix" or literal address
	rules   bool               // there are some, beside allowed hosts
	monitor bool
}

type mode uint8

const (
	modeZero mode = iota
	modeNone
	modeRestricted
	modeFull
)

// Full says whether everything public is allowed, so that a name seen later
// on a connection (an encrypted one included) could not change a verdict.
func (p Policy) Full() bool { return p.mode == modeFull && !p.rules }
