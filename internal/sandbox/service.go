// Package sandbox is what the commands call: it plans a sandbox from
// configuration and flags, keeps its record, and drives its supervisor through
// start, stop, reset and clean-up. It prints nothing and parses no flags.
package sandbox

import (
	"io"
	"time"

	"forage"
	"forage/internal/store"
)

// Options is what `up` and `run` were asked for, before configuration is merged in.
// Zero fields leave the decision to the project file, the template and the defaults, in that order.
type Options struct {
	Name         string // for run: may be empty, one is then made up
	Template     string
	Workspace    string // path as given; "" is the current folder
	ReadOnly     bool
	Runtime      string
	Network      string   // "", "full", "restricted" or "none"
	Allow        []string // added to the template's
	Mounts       []string // SRC:DST[:ro|rw], ro unless said
	Env          []string // K=V, or K to take the caller's value at each start
	SSHKeys      []string // files with public keys
	GitUser      string
	GitEmail     string
	IdentityMode string // "", "sandbox-user" or "host-user"
	Command      []string
	Ephemeral    bool          // run
	Timeout      time.Duration // run: 0 is none
}

// Stdio is where a command's streams go. TTY asks for a terminal inside; the
// caller's terminal is then put into raw mode and restored.
type Stdio struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
	TTY bool
}

// Status is a sandbox as ps and status show it.
type Status struct {
	store.Record
	Status   string        `json:"status"` // running, stopped, failed or creating
	Tmux     string        `json:"tmux"`   // attached, detached or none
	Age      time.Duration `json:"-"`
	GuestPID int           `json:"guestPid,omitempty"`
	Notes    []string      `json:"notes,omitempty"` // what the user should know: "logging out ends it"
}

// NetworkChange is what `network` was asked to change; zero fields change nothing.
type NetworkChange struct {
	Mode   forage.NetworkMode
	Allow  []string
	Remove []string
}

// Action is something that gc did, or would do.
type Action struct {
	Sandbox string `json:"sandbox"`
	What    string `json:"what"` // "removed the run-time folder", ...
}
