// Package supervisor is the host's side of one running sandbox: it brings a
// plan to life, owns what is secret or alive (egress, the channel to the guest,
// the control socket, the SSH port) and takes everything back when the sandbox
// ends. `run` is its own supervisor; `up` starts a detached one (Main). It
// plans nothing and decides nothing about policy.
package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"forage"
	"forage/internal/audit"
	"forage/internal/egress"
	"forage/internal/guest"
	"forage/internal/image"
	"forage/internal/outlet"
	"forage/internal/rootfs"
	"forage/internal/runtime"
	"forage/internal/store"
	"forage/internal/unixsock"
)

// wallClockGrace is how long a sandbox whose time is up has to end by itself.
const wallClockGrace = 10 * time.Second

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
	// HostKey is the guest's SSH host key (see sshkeys.NewHost).
	HostKey []byte
	// ClientKey may log in, beside the plan's keys (a line of authorized_keys).
	ClientKey string
	// HostEnv holds the values of Plan.Spec.HostEnv.
	HostEnv map[string]string
	// Reachable, if set, is called as soon as the guest can be logged in to; it
	// must return at once. What is asked for before Start returns is held back by the guest.
	Reachable func()
	// Update changes the sandbox's record; nil where there is none to change.
	Update func(func(*store.Record)) error
}

// Sandbox is a running sandbox, held by its supervisor.
type Sandbox struct {
	setup    Setup
	audit    *audit.Log
	instance runtime.Instance
	engine   *egress.Engine
	guest    *guestLink
	undo     undo
	done     chan struct{}
	clock    *time.Timer // nil without a wall-clock limit

	updating sync.Mutex // one change of the record at a time

	mu      sync.Mutex
	ready   bool
	network forage.Network
	reason  string // why it was asked to end; "" when nobody asked
	err     error  // why it ended, and what could not be taken back
}

// Start brings the sandbox to life and returns when it is usable. When it
// fails, everything it made is gone.
func Start(ctx context.Context, setup Setup) (_ *Sandbox, err error) {
	s := &Sandbox{setup: setup, network: setup.Network, done: make(chan struct{})}
	defer func() {
		if err != nil {
			err = s.abandon(err)
		}
	}()
	if err := s.openAudit(); err != nil {
		return nil, err
	}
	if err := s.prepareRootfs(ctx); err != nil {
		return nil, err
	}
	if err := s.startRuntime(ctx); err != nil {
		return nil, err
	}
	if setup.Reachable != nil {
		setup.Reachable()
	}
	if err := s.startEgress(); err != nil {
		return nil, err
	}
	s.guest = newGuestLink(s.instance.Control())
	if err := s.openDoors(); err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	if err := s.settle(); err != nil {
		return nil, err
	}
	return s, nil
}

// abandon takes back a start that failed because of err.
func (s *Sandbox) abandon(err error) error {
	if s.audit != nil {
		s.Record(audit.Event{Kind: audit.Lifecycle, Reason: "start failed: " + err.Error()})
	}
	if undoErr := s.undo.run(); undoErr != nil {
		err = errors.Join(err, fmt.Errorf("taking it back: %w", undoErr))
	}
	return forage.WithHint(forage.Errorf(forage.ErrStart, "%w", err), forage.Hint(err))
}

func (s *Sandbox) openAudit() error {
	log, err := audit.Open(s.setup.AuditPath, s.setup.Plan.Name)
	if err != nil {
		return err
	}
	s.audit = log
	s.undo.add(log.Close)
	return s.Record(audit.Event{Kind: audit.Lifecycle, Verdict: "allow", Reason: "starting on " + s.setup.Plan.Runtime})
}

// prepareRootfs unpacks an image and checks that the root filesystem has what
// the plan relies on, before anything is started.
func (s *Sandbox) prepareRootfs(ctx context.Context) error {
	spec := &s.setup.Plan.Spec
	if extra := s.setup.Plan.Facts.UpstreamCA; extra != "" {
		bundle, err := rootfs.Bundle(os.DirFS("/"), extra)
		if err != nil {
			return err
		}
		spec.Files = append(slices.Clip(spec.Files), bundle)
	}
	if spec.Rootfs.Kind != forage.RootfsHost {
		lower, info, err := image.Resolve(ctx, spec.Rootfs, s.setup.ImageCache, image.Options{})
		if err != nil {
			return err
		}
		spec.Rootfs.Lower = lower
		s.adopt(info)
		if err := s.update(func(record *store.Record) { record.Trees = lower }); err != nil {
			return err
		}
	}
	if spec.Session && !hasCommand(*spec, "tmux") {
		return forage.WithHint(
			forage.Errorf(forage.ErrUnsupported, "the root filesystem has no tmux, which a session needs"),
			"install tmux there, or use `run`, which needs none")
	}
	return nil
}

// adopt takes over what an image says of its own PATH. It is a copy of the
// plan's environment that changes: the frozen plan stays as it is.
func (s *Sandbox) adopt(info image.Info) {
	if info.Path == "" {
		return
	}
	env := maps.Clone(s.setup.Plan.Spec.Env)
	env["PATH"] = info.Path
	s.setup.Plan.Spec.Env = env
}

func (s *Sandbox) startRuntime(ctx context.Context) error {
	listener, err := unixsock.Listen(SSHSocket(s.setup.Dir))
	if err != nil {
		return err
	}
	ssh, err := listener.File()
	if err := errors.Join(err, listener.Close()); err != nil {
		return fmt.Errorf("making the SSH socket: %w", err)
	}
	config, err := json.Marshal(s.guestConfig())
	if err != nil {
		return err
	}
	request := runtime.Request{Spec: s.setup.Plan.Spec, Dir: s.setup.Dir, SSH: ssh, Guest: config}
	if request.Spec.Session {
		if request.Log, err = s.openLog(); err != nil {
			return err
		}
	}
	s.instance, err = s.setup.Runtime.Start(ctx, request)
	if err != nil {
		return err
	}
	s.undo.add(func() error { return s.instance.Stop(context.Background(), 0) })
	return nil
}

// openLog returns the write end of a pipe whose other end fills NAME.log.
func (s *Sandbox) openLog() (*os.File, error) {
	log, err := openLog(s.setup.LogPath)
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		log.Close()
		return nil, fmt.Errorf("making the log's pipe: %w", err)
	}
	filled := make(chan struct{})
	go func() {
		defer close(filled)
		defer read.Close()
		log.fill(read)
	}()
	s.undo.add(func() error { <-filled; return nil })
	return write, nil
}

func (s *Sandbox) guestConfig() guest.Config {
	spec := s.setup.Plan.Spec
	env := make([]string, 0, len(spec.Env)+len(s.setup.HostEnv))
	for name, value := range spec.Env {
		env = append(env, name+"="+value)
	}
	for name, value := range s.setup.HostEnv {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return guest.Config{
		Name:           spec.Name,
		HostKey:        s.setup.HostKey,
		AuthorizedKeys: append([]string{s.setup.ClientKey}, s.setup.Plan.AuthorizedKeys...),
		Env:            env,
		Dir:            spec.Dir,
		Init:           spec.Init,
		Command:        spec.Command,
		Session:        spec.Session,
		TasksMax:       spec.Limits.TasksMax,
		KillFirst:      spec.Limits.MemoryMax > 0,
	}
}

func (s *Sandbox) startEgress() error {
	config, err := outlet.EngineConfig(s.setup.Plan.Name, s.network, s.setup.Plan.Facts)
	if err != nil {
		return err
	}
	config.Audit = s.audit
	if s.engine, err = egress.New(config); err != nil {
		return err
	}
	s.undo.add(s.engine.Close)
	s.engine.Serve(s.instance.Egress())
	return nil
}

// openDoors starts what is reached from the host.
func (s *Sandbox) openDoors() error {
	control, err := newControl(s.setup.Dir, s.handle)
	if err != nil {
		return err
	}
	s.undo.add(control.Close)
	if s.setup.Port == 0 {
		return nil
	}
	relay, err := newRelay(s.setup.Listen, s.setup.Port, SSHSocket(s.setup.Dir), s.Record)
	if err != nil {
		return err
	}
	s.undo.add(relay.Close)
	return nil
}

// beginLimit bounds how long a guest may take that has no init commands to run.
const beginLimit = 2 * time.Minute

// begin waits until the guest is ready.
func (s *Sandbox) begin(ctx context.Context) error {
	if len(s.setup.Plan.Spec.Init) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, beginLimit, fmt.Errorf("it was not ready within %v", beginLimit))
		defer cancel()
	}
	return s.guest.begin(ctx)
}

// settle makes a sandbox whose guest is ready a running one.
func (s *Sandbox) settle() error {
	if err := s.Record(audit.Event{Kind: audit.Lifecycle, Verdict: "allow", Reason: "running"}); err != nil {
		return err
	}
	if !s.setup.Plan.Ephemeral { // a run's record is never started again from
		if err := s.update(func(record *store.Record) {
			record.Phase, record.Reason, record.StartedAt = forage.PhaseRunning, "", time.Now().UTC()
		}); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.ready = true
	s.mu.Unlock()
	if limit := s.setup.Plan.Spec.Limits.WallClock; limit > 0 {
		s.clock = time.AfterFunc(limit, func() {
			s.StopFor(context.Background(), wallClockGrace, fmt.Sprintf("its wall clock limit of %v was reached", limit))
		})
	}
	go s.watch()
	return nil
}

// watch waits for the end, whoever caused it, and takes everything back.
func (s *Sandbox) watch() {
	<-s.instance.Done()
	if s.clock != nil {
		s.clock.Stop()
	}
	s.mu.Lock()
	s.ready = false
	reason := s.reason
	s.mu.Unlock()

	var err error
	if reason == "" { // nobody asked for it
		if err = s.instance.Err(); err == nil {
			err = errors.New("it ended by itself")
		}
		reason = err.Error()
	}
	err = errors.Join(err, s.Record(audit.Event{Kind: audit.Lifecycle, Reason: "ended: " + reason}), s.undo.run())
	s.mu.Lock()
	s.reason, s.err = reason, err
	s.mu.Unlock()
	close(s.done)
}

// Record puts an event into the audit log. When it fails, what the event is
// about must not happen.
func (s *Sandbox) Record(event audit.Event) error { return s.audit.Record(event) }

// Done is closed when nothing of the sandbox is left.
func (s *Sandbox) Done() <-chan struct{} { return s.done }

// Ended says, after Done, why the sandbox ended; the error is nil when it was asked to.
func (s *Sandbox) Ended() (reason string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason, s.err
}

// Stop ends the sandbox: SIGTERM to all that runs inside, SIGKILL after grace.
// It returns when nothing is left.
func (s *Sandbox) Stop(ctx context.Context, grace time.Duration) error {
	return s.StopFor(ctx, grace, "it was asked to stop")
}

// StopFor is Stop with a reason of the caller's.
func (s *Sandbox) StopFor(ctx context.Context, grace time.Duration, reason string) error {
	s.mu.Lock()
	if s.reason == "" {
		s.reason = reason
	}
	s.mu.Unlock()
	if err := s.instance.Stop(ctx, grace); err != nil {
		return fmt.Errorf("stopping the sandbox: %w", err)
	}
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Sandbox) update(change func(*store.Record)) error {
	if s.setup.Update == nil {
		return nil
	}
	s.updating.Lock()
	defer s.updating.Unlock()
	return s.setup.Update(change)
}
