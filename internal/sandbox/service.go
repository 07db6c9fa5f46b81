// Package sandbox is what the commands call: it plans a sandbox from
// configuration and flags, keeps its record, and drives its supervisor through
// start, stop, reset and clean-up. It prints nothing and parses no flags.
package sandbox

import (
	"fmt"
	"io"

	"forage"
	"forage/internal/sandbox/plan"
	"forage/internal/sandbox/work"
	"forage/internal/store"
	"forage/internal/supervisor"
	"forage/internal/term"
)

// Config is what a Service is made from.
type Config struct {
	ConfigFile string // --config; "" looks in the usual places
	Caller     plan.Caller
	Notify     func(note string) // is told what the user should know before a sandbox starts; nil: no one
	Detail     func(string)      // is told what else is decided; nil: no one
	// Progress is told what begins that may take long, and returns what to call at its end; nil: no
	// one. One is under way at a time.
	Progress func(what string) (end func())
	// Pulling is Progress that is told, by what it returns, how far it is; nil: no one.
	Pulling func(what string) (say func(how string), end func())
	// Unconfigured is told what is wrong with the configuration, where nothing is planned or
	// started: what runs can be seen and ended without it. nil: it is an error.
	Unconfigured func(error)
}

// Service starts, shows, ends and removes the sandboxes of one user.
type Service struct {
	Host     *plan.Host
	Work     *work.Keeper
	Notify   func(string)
	Progress func(string) func()
	Pulling  func(string) (func(string), func())
	detail   func(string)
	via      string // who uses this program, if not at this machine: see forage.ViaVariable
}

// New reads the configuration and opens the caller's sandboxes. It makes nothing.
func New(c Config) (*Service, error) {
	host, err := plan.Open(c.Caller, c.ConfigFile, c.Unconfigured)
	if err != nil {
		return nil, err
	}
	s := newService(host, c)
	via, _ := c.Caller.Getenv(forage.ViaVariable)
	s.via = term.Escape(fmt.Sprintf("%.100s", via))
	return s, nil
}

func newService(host *plan.Host, c Config) *Service {
	s := &Service{Host: host, Notify: c.Notify, Progress: c.Progress, Pulling: c.Pulling, detail: c.Detail}
	if s.Notify == nil {
		s.Notify = func(string) {}
	}
	if s.Progress == nil {
		s.Progress = func(string) func() { return func() {} }
	}
	if s.Pulling == nil {
		s.Pulling = func(what string) (func(string), func()) { return func(string) {}, s.Progress(what) }
	}
	s.Work = &work.Keeper{Host: host, Notify: s.Notify, Progress: s.Progress, Locked: s.locked, Record: s.record}
	return s
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
	Status   string `json:"status"` // running, stopped, failed or creating
	Tmux     string `json:"tmux"`   // attached, detached or none
	GuestPID int    `json:"guestPid,omitempty"`
	// Agent is the command that it was made for, AgentState what that does while the sandbox runs:
	// working, waiting, running (it doesn't tell) or ended, with ExitCode, where that is known.
	// What is inside can forge both. Of a run that was kept ExitCode is its command's.
	Agent      string `json:"agent,omitempty"`
	AgentState string `json:"agentState,omitempty"`
	ExitCode   *int   `json:"exitCode,omitempty"`
	// Work is what has become of each part of the workspace. Service.Status alone asks for it.
	Work []work.Work `json:"work,omitempty"`
	// Unsaved is whether some of the work is nowhere else. Service.List alone asks for it; nil
	// where the workspace is the user's own.
	Unsaved *bool `json:"unsaved,omitempty"`
	// Branch is GitBranch where it exists. Service.List alone asks for it.
	Branch string `json:"-"`
	// Findings are what host tools would execute in the workspace (see Service.Findings), where
	// they were asked for; FindingCount is how many there are, -1 if that is not known.
	Findings     []work.Finding `json:"findings,omitempty"`
	FindingCount int            `json:"findingCount,omitempty"`
	// Refused is how many destinations it was refused since its start and may still not have;
	// Refusals are those.
	Refused  int       `json:"refused,omitempty"`
	Refusals []Refusal `json:"refusals,omitempty"`
	// Ports are those that servers inside listen on, as the guest says. Bytes are what it sent and
	// received over all its starts, while it runs.
	Ports []supervisor.Port `json:"ports,omitempty"`
	Bytes int64             `json:"bytes,omitempty"`
	// Pages are those that programs inside ask the user to open, the last one first.
	Pages []supervisor.Page `json:"pages,omitempty"`
}
