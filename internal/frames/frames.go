// Package frames is the control channel between the host and a guest: small
// typed messages over a unix stream socket, with descriptors beside them. The
// peer is not trusted: sizes are bounded, unknown kinds are errors.
package frames

import "encoding/json"

// Kind says what a frame means. The host sends Boot, Go, Stop and Query; the guest
// sends Listeners, Ready, Failed and Answer.
type Kind string

// The kinds, in the order in which they are sent.
const (
	Boot      Kind = "boot"      // host: what to build and run (body defined by the runtime)
	Listeners Kind = "listeners" // guest: network is set up; egress sockets attached
	Go        Kind = "go"        // host: egress serves; run init commands and start the session
	Ready     Kind = "ready"     // guest: usable
	Failed    Kind = "failed"    // guest: could not be set up; body is Failure
	Stop      Kind = "stop"      // host: end everything, body is StopBody
	Query     Kind = "query"     // host: asks for the session's state or to start the agent's window again
	Answer    Kind = "answer"    // guest: to Query
)

// Frame is one message.
type Frame struct {
	Kind Kind            `json:"kind"`
	Body json.RawMessage `json:"body,omitempty"`
}

// Failure is the body of Failed.
type Failure struct {
	Step  string `json:"step"`  // what was being done: "mounting /workspace"
	Error string `json:"error"` // why it failed; untrusted text
	Hint  string `json:"hint,omitempty"`
}

// StopBody is the body of Stop.
type StopBody struct {
	GraceMillis int64 `json:"graceMillis"` // between SIGTERM and SIGKILL
}

// QueryBody is the body of Query; What is "session" (state of the tmux session) or
// "window" (start the agent's window again if it has ended).
type QueryBody struct {
	What string `json:"what"`
}

// AnswerBody is the body of Answer.
type AnswerBody struct {
	Session string `json:"session,omitempty"` // "attached", "detached" or "none"
	Error   string `json:"error,omitempty"`   // untrusted text
}

// Conn is one end of a control channel.
type Conn struct{}
