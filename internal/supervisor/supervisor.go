// Package supervisor is the host's side of one running sandbox: it brings a
// plan to life, owns what is secret or alive (egress, the channel to the guest,
// the control socket, the SSH port) and takes everything back when the sandbox
// ends. `run` is its own supervisor; `up` starts a detached one (Main). It
// plans nothing and decides nothing about policy.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"forage"
	"forage/internal/audit"
	"forage/internal/egress"
	"forage/internal/egress/meter"
	"forage/internal/egress/tlsmitm"
	"forage/internal/runtime"
	"forage/internal/store"
)

// Setup is everything that Start needs to bring one sandbox to life.
type Setup struct {
	Plan    forage.Plan
	Runtime runtime.Runtime
	// Dir is the sandbox's run-time folder; the caller holds its Lock.
	Dir string
	// Network is the live policy to begin with: Plan.Network with later changes.
	Network forage.Network
	// LogPath, AuditPath and ImageCache are where the agent's output, the audit
	// log and unpacked images go.
	LogPath, AuditPath, ImageCache string
	// Listen and Port are the address of the SSH port on the host; port 0 is none.
	Listen string
	Port   int
	// HostKey is the guest's SSH host key (see sshkeys.NewHost); nil without an SSH port.
	HostKey []byte
	// ClientKey may log in, beside the plan's keys (a line of authorized_keys).
	ClientKey string
	// HostEnv holds the values of Plan.Spec.HostEnv.
	HostEnv map[string]string
	// SecretEnv holds the values of SecretEnv(Plan), as far as they are set. It stays on the host.
	SecretEnv map[string]string
	// UsagePath is where what the sandbox has used of the network is kept between its starts; "" is
	// nowhere.
	UsagePath string
	// Workspaces brings commits that are made inside to the host's repositories; its zero value
	// doesn't.
	Workspaces Workspaces
	// Notify says how the user is told what the agent does.
	Notify forage.Notify
	// Via is who starts the sandbox, if not at this machine.
	Via string
	// Update changes the sandbox's record; nil where there is none to change.
	Update func(func(*store.Record)) error
}

// Sandbox is a running sandbox, held by its supervisor.
type Sandbox struct {
	setup     Setup
	audit     *audit.Log
	instance  runtime.Instance
	authority *tlsmitm.Authority // nil where no TLS is looked into
	account   *meter.Account
	engine    *egress.Engine
	guest     *guestLink
	activity  *activity
	forwards  forwards
	asked     asked
	undo      undo
	done      chan struct{}
	clock     *time.Timer // nil without a wall-clock limit

	updating sync.Mutex // one change of the record at a time

	mu      sync.Mutex
	ready   bool
	network forage.Network
	reason  string // why it was asked to end; "" when it was not
	err     error  // why it ended, and what could not be taken back
}

// Start brings the sandbox to life and returns when it is usable. When it
// fails, everything it made is gone.
func Start(ctx context.Context, setup Setup) (_ *Sandbox, err error) {
	s := &Sandbox{setup: setup, network: setup.Network, done: make(chan struct{})}
	s.activity = newActivity(first(setup.Plan.Spec.Command), setup.Notify.Desktop || len(setup.Notify.Command) > 0)
	defer func() {
		if err == nil {
			return
		}
		if s.audit != nil {
			s.Record(audit.Event{Kind: audit.Lifecycle, Reason: "start failed: " + err.Error()})
		}
		if undoErr := s.undo.run(); undoErr != nil {
			err = errors.Join(err, fmt.Errorf("taking it back: %w", undoErr))
		}
		err = forage.WithHint(forage.Errorf(forage.ErrStart, "%w", err), forage.Hint(err))
	}()
	for _, step := range []func(context.Context) error{
		s.openAudit, s.makeEgress, s.prepareRootfs, s.prepareSecrets, s.placeSkills, s.prepareTrust, s.startRuntime,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	s.engine.Serve(s.instance.Egress())
	s.guest = newGuestLink(s.instance.Control())
	if err := s.openDoors(); err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	s.importCommits()
	s.forwardPorts()
	if err := s.settle(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Sandbox) openAudit(context.Context) error {
	log, err := audit.Open(s.setup.AuditPath, s.setup.Plan.Name)
	if err != nil {
		return err
	}
	s.audit = log
	s.undo.add("the audit log", log.Close)
	return s.Record(audit.Event{Kind: audit.Lifecycle, Verdict: "allow", Reason: by("starting on "+s.setup.Plan.Runtime, s.setup.Via)})
}

// Record puts an event into the audit log. When it fails, what the event is
// about must not happen.
func (s *Sandbox) Record(event audit.Event) error { return s.audit.Record(event) }

func (s *Sandbox) update(change func(*store.Record)) error {
	if s.setup.Update == nil {
		return nil
	}
	s.updating.Lock()
	defer s.updating.Unlock()
	return s.setup.Update(change)
}
