// Package sniff reads what a client says first, just far enough to know whom
// it means to talk to: a TLS ClientHello, the heads of HTTP/1 requests, a PROXY
// header. It is strict: what two readers could understand differently is refused. It
// decides nothing and changes nothing that passes.
package sniff

import "fmt"

// Error says why bytes from a client are refused. Its text has nothing of the
// client's in it that was not quoted.
type Error struct {
	Rule   string // short name for the audit: "sni-missing", "not-tls", "http-strict", ...
	Reason string
}

func (e *Error) Error() string { return e.Reason }

func refuse(rule, format string, args ...any) error {
	return &Error{Rule: rule, Reason: fmt.Sprintf(format, args...)}
}
