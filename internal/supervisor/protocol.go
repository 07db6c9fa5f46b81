package supervisor

import (
	"forage"
	"forage/internal/audit"
	"forage/internal/egress"
)

// maxMessage bounds one control message, in bytes.
const maxMessage = 1 << 20

// Operation is what a control request asks for.
type Operation string

// The operations of the control socket.
const (
	OpStatus  Operation = "status"  // is the sandbox usable, what does tmux say
	OpStop    Operation = "stop"    // end it; the answer comes when nothing of it runs
	OpNetwork Operation = "network" // replace the live network policy
	OpRecord  Operation = "record"  // put an event (an exec) into the audit log before it happens
	OpWindow  Operation = "window"  // start the agent's window again if it has ended
	OpOpened  Operation = "opened"  // the user opens a page that was asked for, or will not
	OpTraffic Operation = "traffic" // what it asks of the network, and has used
)

// Request is one line of JSON on the control socket; one per connection.
type Request struct {
	Op      Operation       `json:"op"`
	Network *forage.Network `json:"network,omitempty"` // OpNetwork
	Event   *audit.Event    `json:"event,omitempty"`   // OpRecord
	Via     string          `json:"via,omitempty"`     // who asks, if not at this machine; it goes on record
	URL     string          `json:"url,omitempty"`     // OpOpened
	Allow   bool            `json:"allow,omitempty"`   // OpOpened: the user opens it
}

// Response answers a Request.
type Response struct {
	Ready    bool     `json:"ready,omitempty"`
	Tmux     string   `json:"tmux,omitempty"` // attached, detached or none
	GuestPID int      `json:"guestPid,omitempty"`
	Agent    string   `json:"agent,omitempty"`    // working, waiting, running or ended; the agent can forge it
	ExitCode *int     `json:"exitCode,omitempty"` // of one that has ended, where it is known
	Traffic  *Traffic `json:"traffic,omitempty"`  // OpTraffic
	// Refused is what the sandbox was refused since its start and may still not have, the last one
	// first (OpStatus).
	Refused []egress.Refused `json:"refused,omitempty"`
	Ports   []Port           `json:"ports,omitempty"` // OpStatus
	Pages   []Page           `json:"pages,omitempty"` // OpStatus: the last one first
	Bytes   int64            `json:"bytes,omitempty"` // sent and received over all its starts (OpStatus)
	Failure *Failure         `json:"failure,omitempty"`
}

// Launch is what a detached supervisor reads from its standard input.
type Launch struct {
	StateDir   string            `json:"stateDir"`
	RuntimeDir string            `json:"runtimeDir"`
	Name       string            `json:"name"`
	Listen     string            `json:"listen"` // address of the SSH port
	HostEnv    map[string]string `json:"hostEnv,omitempty"`
	SecretEnv  map[string]string `json:"secretEnv,omitempty"`
	Notify     forage.Notify     `json:"notify"`
	Prefix     string            `json:"prefix,omitempty"` // Runtimes.Prefix
	Via        string            `json:"via,omitempty"`    // see Request
}

// Failure is an error that crosses a process boundary: its kind as an exit code.
type Failure struct {
	Code  int    `json:"code"`
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
}

// failure makes a Failure of err; nil of nil.
func failure(err error) *Failure {
	if err == nil {
		return nil
	}
	return &Failure{Code: forage.ExitCode(err), Error: err.Error(), Hint: forage.Hint(err)}
}

// err is the error that f stands for, of the same kind; nil for nil.
func (f *Failure) err() error {
	if f == nil {
		return nil
	}
	return forage.WithHint(forage.Errorf(forage.KindOf(f.Code), "%s", f.Error), f.Hint)
}
