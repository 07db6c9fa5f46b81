// Package control is the control channel between the host and a guest: small
// typed messages over any stream, on a unix socket with descriptors beside them. The
// peer is not trusted: sizes and counts are bounded by the receiving end, unknown
// kinds are errors, and so are descriptors beside any but Boot and Listeners; whatever
// is not handed to the receiver is closed.
//
// It carries control only. Nothing of what the agent reads or writes passes
// through it, and it knows no bodies but those that every runtime shares.
//
// Use: Pair makes the two ends; the host keeps one with New(file, FromGuest), the
// guest takes the other with New(file, FromHost). Encode and Frame.Decode
// turn a body into JSON and back; bulk bytes (a CA bundle) go in Frame.Blob, which is
// sent as it is, since JSON costs milliseconds there.
package control

import (
	"encoding/json"
	"fmt"
)

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

// known reports whether k is one of the kinds.
func (k Kind) known() bool {
	switch k {
	case Boot, Listeners, Go, Ready, Failed, Stop, Query, Answer:
		return true
	}
	return false
}

// carriesFiles reports whether descriptors may be beside a frame of kind k.
func (k Kind) carriesFiles() bool { return k == Boot || k == Listeners }

// Frame is one message.
type Frame struct {
	Kind Kind
	// Body is JSON, or empty for a kind that needs none.
	Body json.RawMessage
	// Blob is bulk data that belongs to the body, as raw bytes.
	Blob []byte
}

// Encode makes a frame whose body is v as JSON.
func Encode(kind Kind, v any) (Frame, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return Frame{}, fmt.Errorf("encoding a %s frame: %w", kind, err)
	}
	return Frame{Kind: kind, Body: body}, nil
}

// Decode parses the frame's body into v. An empty body leaves v as it is.
func (f Frame) Decode(v any) error {
	if len(f.Body) == 0 {
		return nil
	}
	if err := json.Unmarshal(f.Body, v); err != nil {
		return fmt.Errorf("decoding a %s frame: %w", f.Kind, err)
	}
	return nil
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

// QueryBody is the body of Query; What is "session" (state of the tmux session, and the ports),
// "ports" or "window" (start the agent's window again if it has ended).
type QueryBody struct {
	What string `json:"what"`
}

// AnswerBody is the body of Answer.
type AnswerBody struct {
	Session string `json:"session,omitempty"` // "attached", "detached" or "none"
	Ended   bool   `json:"ended,omitempty"`   // the agent has
	Status  *int   `json:"status,omitempty"`  // its exit status, where that is known
	Ports   []int  `json:"ports,omitempty"`   // TCP ports that something inside listens on, in order
	Error   string `json:"error,omitempty"`   // untrusted text
}
