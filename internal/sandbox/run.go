package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"forage"
	"forage/internal/guest/guestclient"
	"forage/internal/idle"
	"forage/internal/runtime"
	"forage/internal/sandbox/plan"
	"forage/internal/sandbox/work"
	"forage/internal/store"
	"forage/internal/supervisor"
)

// timeoutExit is the exit code of a run that took longer than it was given.
const timeoutExit = 124

// notFound is the exit code of a command that is not there, as of a shell.
const notFound = 127

// Run runs one command in a throw-away sandbox and returns its exit code, beside an error where
// that needs explaining. This process is the sandbox's supervisor: however it ends, the sandbox
// ends too.
func (s *Service) Run(ctx context.Context, opts plan.Options, stdio Stdio) (exit int, err error) {
	opts.Ephemeral = true
	opts.Name = cmp.Or(opts.Name, plan.RunName())
	unlock, err := s.lock(ctx, opts.Name)
	if err != nil {
		return 0, err
	}
	unlock = sync.OnceFunc(unlock)
	defer unlock()
	if _, _, err := s.found(ctx, opts.Name); err != nil {
		return 0, err
	}
	if err := s.build(ctx, &opts); err != nil {
		return 0, err
	}
	planned, err := s.Host.Plan(ctx, opts)
	if err != nil {
		return 0, err
	}
	if planned.Missing != nil {
		return notFound, planned.Missing
	}
	plan := planned.Plan
	s.tell(planned.Notes)
	s.tellDetail(planned.Detail)
	rt, err := s.Host.Runtimes.New(plan.Runtime)
	if err != nil {
		return 0, err
	}
	if early, can := rt.(runtime.Preparer); can {
		using, done := context.WithCancel(ctx)
		defer done()
		early.Prepare(using, plan.Spec.Identity)
	}
	hostEnv, err := s.Host.HostEnv(plan)
	if err != nil {
		return 0, err
	}
	running := plan
	running.Spec.Session = false // the command has our terminal
	var before work.Baselines
	look := sync.OnceValue(func() (err error) {
		before, err = s.Work.Look(ctx, plan, &running.Spec)
		return err
	})
	if !slices.ContainsFunc(plan.Workspaces(), func(w forage.Workspace) bool { return w.Mode != forage.WorkspaceDirect }) {
		go look() // at folders that are there already
	}
	record, err := s.newRecord(ctx, plan)
	if err != nil {
		return 0, err
	}
	lock, err := supervisor.Acquire(s.Host.Places.Of(plan.Name).Dir)
	if err != nil {
		return 0, errors.Join(err, s.Host.Store.Delete(plan.Name, true))
	}
	unlock() // from here on it is known by the supervisor's lock
	// What was made is taken away again, or kept, even when ctx has ended.
	end := ending{lock: lock}
	defer func() { err = errors.Join(err, s.endRun(context.WithoutCancel(ctx), record, end)) }()
	if record, err = s.createWorkspaces(ctx, record, nil); err != nil {
		return 0, err
	}
	if err := makeVolumes(plan.Spec); err != nil {
		return 0, err
	}
	if err := look(); err != nil {
		return 0, err
	}
	end.before = before
	if !plan.Ephemeral { // from here on it is found again, also when this process is killed
		if err := errors.Join(s.keepFiles(record, end), s.removeHome(plan.Name), makeHome(plan.Spec)); err != nil {
			return 0, err
		}
	}
	defer func() { s.Work.TellFindings(context.WithoutCancel(ctx), plan, before) }() // when nothing runs any more

	paths := s.Host.Places.Of(plan.Name)
	if err := s.pull(ctx, plan.Spec); err != nil {
		return 0, err
	}
	started := s.Progress(starting(plan))
	sandbox, err := supervisor.Start(ctx, supervisor.Setup{
		Plan: running, Runtime: rt, Dir: paths.Dir, Network: plan.Network,
		LogPath: paths.Log, AuditPath: paths.Audit, ImageCache: paths.ImageCache,
		HostEnv: hostEnv, SecretEnv: s.Host.SecretEnv(plan),
		Update:     func(change func(*store.Record)) error { change(&record); return s.Host.Store.Save(record) },
		Workspaces: s.Host.Workspaces,
	})
	started()
	if err != nil {
		return 0, err
	}
	end.started = true
	idle.Settle()
	defer func() { err = errors.Join(err, sandbox.Stop()) }()
	if exit, err = s.runIn(ctx, sandbox, record, opts, stdio); err == nil {
		end.exit = &exit
	}
	s.tellRefusals(plan.Name, s.Host.WithSets(context.WithoutCancel(ctx), plan, sandbox.Refused()))
	return exit, err
}

// runIn runs the plan's command in a sandbox that has just been started.
func (s *Service) runIn(ctx context.Context, sandbox *supervisor.Sandbox, record store.Record, opts plan.Options, stdio Stdio) (int, error) {
	command := record.Plan.Spec.Command
	if err := sandbox.Record(execEvent("run", command)); err != nil {
		return 0, err
	}
	client, err := s.connect(ctx, record)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-sandbox.Done():
			client.GuestDied()
		case <-over:
		}
	}()
	if opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, opts.Timeout, errTimeout)
		defer cancel()
	}
	exit, err := runOver(ctx, client, record.Plan, command, stdio)
	switch {
	case errors.Is(context.Cause(ctx), errTimeout):
		return timeoutExit, fmt.Errorf("the command took longer than the %v that it was given", opts.Timeout)
	case err != nil:
		// The connection broke because the sandbox ended: say why it did.
		select {
		case <-sandbox.Done():
			reason, _ := sandbox.Ended()
			return 0, fmt.Errorf("the sandbox ended: %s", reason)
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	return exit, err
}

var errTimeout = errors.New("out of time")

// runOver runs a command over an open connection.
func runOver(ctx context.Context, client *guestclient.Client, plan forage.Plan, argv []string, stdio Stdio) (int, error) {
	command := guestclient.Command{Argv: argv, Dir: plan.Spec.Dir, TTY: stdio.TTY}
	command.Clipboard, command.Title = terminalOf(plan)
	exit, err := client.Run(ctx, command, guestclient.Stdio{In: stdio.In, Out: stdio.Out, Err: stdio.Err})
	if err != nil {
		return 0, err
	}
	return exit.Code(), nil
}
