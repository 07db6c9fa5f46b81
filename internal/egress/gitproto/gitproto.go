// Package gitproto reads a git push (gitprotocol-pack(5), gitprotocol-http(5))
// while it is sent on, and stops it when it does what a rule doesn't allow.
package gitproto

import (
	"io"

	"forage"
)

// Guard returns what to send on in place of body, the body of a POST to
// git-receive-pack. A *Refusal, here or from reading, means that the push must not
// be completed: the server, which has not seen the end of it then, does nothing. Memory is bounded
// whatever is pushed.
func Guard(body io.Reader, rule forage.GitRule) (io.Reader, error) { return body, nil }

// Refusal is a push that is not allowed.
type Refusal struct{}

func (r *Refusal) Error() string { return "" }

// Report is the answer that makes git show its user, ref by ref, what is
// not allowed; contentType is that of the answer.
func (r *Refusal) Report() (contentType string, body []byte) { return "", nil }
