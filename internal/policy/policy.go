// Package policy holds the rules about what a sandbox may reach, and decides.
// It is pure: plain values in, a decision out. It resolves nothing, opens
// nothing and has no errors at decision time.
package policy

import "net/netip"

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

// Request is what something inside wants to reach: a name or a literal
// address, never both.
type Request struct {
	Host string     // canonical name: lower case, ASCII (IDNA), no trailing dot
	Addr netip.Addr // literal address, unmapped; valid only when Host is ""
	Port uint16     // 0: a DNS question, asked before a port is known
}

// Decision is a verdict with what made it.
type Decision struct {
	Verdict Verdict
	Rule    string // the rule that decided, as it was written, or a built-in's name: "default-deny"
	Reason  string // for people
}

// Policy is a compiled network policy; its zero value denies everything.
type Policy struct{}
