package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"forage"
	"forage/internal/sshkeys"
	"forage/internal/store"
	"forage/internal/supervisor"
	"forage/internal/workspace"
)

// stopGrace is how long what runs inside has to end by itself.
const stopGrace = 5 * time.Second

// goneLimit is how long a supervisor that was told to end, or killed, may take
// to take everything back.
const goneLimit = 30 * time.Second

// Up creates a sandbox and starts it; a stopped one with the same plan is
// started again. It returns when the sandbox is usable.
func (s *Service) Up(ctx context.Context, opts Options) (Status, error) {
	if err := s.tidy(ctx, opts.Name); err != nil {
		return Status{}, err
	}
	planned, err := s.planned(ctx, opts)
	if err != nil {
		return Status{}, err
	}
	plan := planned.plan
	s.tell(append(planned.notes, logoutNote(s.Caller.UID, s.Caller.User, "/")))
	unlock, err := s.Store.Lock(ctx, plan.Name)
	if err != nil {
		return Status{}, err
	}
	defer unlock()
	record, err := s.settled(ctx, plan.Name)
	if !errors.Is(err, forage.ErrNotFound) && err != nil {
		return Status{}, err
	}
	switch there := err == nil; {
	case there && s.alive(plan.Name):
		err = forage.WithHint(
			forage.Errorf(forage.ErrRefused, "a sandbox named %q is already running", plan.Name),
			"attach with `forage-ctl ssh "+plan.Name+"`, or choose another name")
	case !record.CreatedAt.Equal(planned.against): // it was made, or removed, since the plan was
		err = forage.WithHint(
			forage.Errorf(forage.ErrRefused, "somebody else was working on the sandbox %q", plan.Name), "try again")
	case there:
		if err = samePlan(record.Plan, plan); err == nil {
			err = s.launch(ctx, record)
		}
	default:
		err = s.create(ctx, plan)
	}
	if err != nil {
		return Status{}, err
	}
	record, err = s.Store.Load(plan.Name)
	return s.status(ctx, record), err
}

// tidy finishes what was interrupted of a sandbox before another one of its name is planned: what is
// half made would be in the way. Where nothing is to be done it makes nothing.
func (s *Service) tidy(ctx context.Context, name string) error {
	record, err := s.Store.Load(name)
	if err != nil || unsettled(record) == "" || s.alive(name) {
		return nil // what is wrong is met again
	}
	unlock, err := s.Store.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err = s.settled(ctx, name); errors.Is(err, forage.ErrNotFound) {
		return nil
	}
	return err
}

// tell passes on what the user should know.
func (s *Service) tell(notes []string) {
	for _, note := range notes {
		if note != "" {
			s.notify(note)
		}
	}
}

// create makes the record and the keys of a new sandbox and starts it. When
// that fails, nothing is left.
func (s *Service) create(ctx context.Context, plan forage.Plan) error {
	return s.createFilled(ctx, plan, nil)
}

// createFilled is create with what is to be done in the workspaces before anything runs there; nil is nothing.
func (s *Service) createFilled(ctx context.Context, plan forage.Plan, fill func(context.Context, store.Record) error) error {
	hostEnv, err := s.hostEnv(plan)
	if err != nil {
		return err
	}
	hostKey, err := sshkeys.NewHost()
	if err != nil {
		return err
	}
	record, err := s.newRecord(ctx, plan, hostKey)
	if err != nil {
		return err
	}
	if err = s.prepareFiles(record, hostKey); err == nil {
		record, err = s.furnish(ctx, record, fill)
	}
	if err == nil {
		err = s.keepLook(ctx, plan)
	}
	if err == nil {
		record, err = s.spawnSomewhere(ctx, record, hostEnv)
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, s.remove(context.WithoutCancel(ctx), record, unmake(record)))
}

// furnish makes the workspaces of a sandbox that is on record.
func (s *Service) furnish(ctx context.Context, record store.Record, fill func(context.Context, store.Record) error) (store.Record, error) {
	if err := s.makeWorkspaces(ctx, record.Plan); err != nil {
		return record, err
	}
	if fill != nil {
		if err := fill(ctx, record); err != nil {
			return record, err
		}
	}
	if len(madeParts(record.Plan)) == 0 {
		return record, nil
	}
	record.Furnished = true
	return record, s.Store.Save(record)
}

// unmake is how the workspaces of a sandbox are taken away that came to nothing: with work in them,
// if something may have run inside.
func unmake(record store.Record) workspace.Removal {
	switch {
	case !record.Furnished:
		return workspace.RemoveUnused
	case record.Plan.Ephemeral:
		return workspace.RemoveButBranch
	default:
		return workspace.RemoveForced
	}
}

// newRecord puts the sandbox on record, which reserves its name and its port.
func (s *Service) newRecord(ctx context.Context, plan forage.Plan, hostKey []byte) (store.Record, error) {
	hostLine, err := sshkeys.HostLine(hostKey)
	if err != nil {
		return store.Record{}, err
	}
	if err := s.Places.MakeRuntime(); err != nil {
		return store.Record{}, err
	}
	var ports store.Ports
	if !plan.Ephemeral {
		ports = s.ports()
	}
	return s.Store.Create(ctx, withWorkspaces(store.Record{
		Name: plan.Name, Template: plan.Template, Runtime: plan.Runtime,
		CreatedAt: time.Now().UTC(), Phase: forage.PhaseCreating,
		Plan: plan, HostKey: hostLine, Network: plan.Network,
	}), ports)
}

// prepareFiles makes what a sandbox that outlives its command keeps beside its record.
func (s *Service) prepareFiles(record store.Record, hostKey []byte) error {
	paths := s.Places.Of(record.Name)
	if err := os.MkdirAll(paths.Generated, 0o700); err != nil {
		return fmt.Errorf("making the sandbox's folder: %w", err)
	}
	knownHost := hostAlias(record.Name) + " " + record.HostKey + "\n"
	return errors.Join(
		sshkeys.SaveHost(paths.HostKey, hostKey),
		os.WriteFile(paths.KnownHosts, []byte(knownHost), 0o600))
}

// Start starts a stopped sandbox from its frozen plan; in a running one it
// starts the agent's window again if that has ended.
func (s *Service) Start(ctx context.Context, name string) error {
	return s.locked(ctx, name, func(record store.Record) error {
		if s.alive(name) {
			return s.client(name).StartWindow(ctx)
		}
		s.tell(s.missingSecrets(record.Plan))
		return s.launch(ctx, record)
	})
}

// launch starts a supervisor for a sandbox that is on record and not running.
func (s *Service) launch(ctx context.Context, record store.Record) error {
	if err := s.Places.MakeRuntime(); err != nil { // it may be gone since the record was made
		return err
	}
	hostEnv, err := s.hostEnv(record.Plan)
	if err != nil {
		return err
	}
	if err := makeRoom(record.Plan); err != nil { // the user may have taken it away
		return err
	}
	record, err = s.spawnSomewhere(ctx, record, hostEnv)
	if err != nil {
		record.Phase, record.Reason = forage.PhaseFailed, err.Error()
		return errors.Join(err, s.Store.Save(record))
	}
	return nil
}

// spawnSomewhere starts a supervisor, on another port where somebody who doesn't share our records took
// the recorded one.
func (s *Service) spawnSomewhere(ctx context.Context, record store.Record, hostEnv map[string]string) (store.Record, error) {
	err := s.spawn(ctx, record, hostEnv)
	for taken := []int(nil); errors.Is(err, forage.ErrNoPort); {
		taken = append(taken, record.Port)
		moved, moveErr := s.Store.MovePort(ctx, record, s.ports(taken...))
		if moveErr != nil {
			return record, errors.Join(err, moveErr)
		}
		record = moved
		err = s.spawn(ctx, record, hostEnv)
	}
	return record, err
}

// ports is where a sandbox's SSH port may be: not one of taken.
func (s *Service) ports(taken ...int) store.Ports {
	return store.Ports{Listen: s.Config.SSHListen, From: s.Config.PortRange.From, To: s.Config.PortRange.To, Skip: taken}
}

func (s *Service) spawn(ctx context.Context, record store.Record, hostEnv map[string]string) error {
	return supervisor.Spawn(ctx, supervisor.Launch{
		StateDir: s.Places.State, RuntimeDir: s.Places.Runtime, Name: record.Name,
		Listen: s.Config.SSHListen, HostEnv: hostEnv, SecretEnv: s.secretEnv(record.Plan),
	}, s.Places.Of(record.Name).Crash)
}

// Stop ends what runs in the sandbox and keeps the rest.
func (s *Service) Stop(ctx context.Context, name string) error {
	return s.locked(ctx, name, func(record store.Record) error {
		if err := s.halt(ctx, record); err != nil {
			return err
		}
		s.bringCommits(ctx, record.Plan)
		s.tellCount(ctx, record)
		return nil
	})
}

// bringCommits is updateWorkspaces for who has done what was asked: what can't be brought is said.
func (s *Service) bringCommits(ctx context.Context, plan forage.Plan) {
	if err := s.updateWorkspaces(ctx, plan); err != nil {
		s.notify(err.Error())
	}
}

// Reset stops the sandbox and starts it afresh: everything but the workspace
// and what is mounted is as it was at first.
func (s *Service) Reset(ctx context.Context, name string) error {
	return s.locked(ctx, name, func(record store.Record) error {
		if err := s.halt(ctx, record); err != nil {
			return err
		}
		record, err := s.Store.Load(name)
		if err != nil {
			return err
		}
		s.SnapshotBefore(ctx, record, "reset")
		s.tell(s.missingSecrets(record.Plan))
		return s.launch(ctx, record)
	})
}

// Down removes the sandbox and what was made for its workspace. It refuses while work would be lost; with
// force that work is kept for a while. The files of a direct workspace are the user's and stay. One whose record
// can't be read is removed with force alone: what else it may have, nobody knows.
func (s *Service) Down(ctx context.Context, name string, force bool) error {
	how := workspace.RemoveSaved
	if force {
		how = workspace.RemoveForced
	}
	err := s.locked(ctx, name, func(record store.Record) error {
		if !force { // before it is stopped
			if err := s.nothingUnsaved(ctx, name, record.Plan.Workspaces()); err != nil {
				return err
			}
		}
		for {
			if err := s.halt(ctx, record); err != nil {
				return err
			}
			s.tellLast(ctx, record)
			err := s.remove(ctx, record, how)
			if !errors.As(err, new(taken)) || ctx.Err() != nil {
				return err
			}
			// A supervisor whose launcher is gone took it in between: it is ended too.
		}
	})
	if was := interrupted(""); errors.As(err, &was) {
		return nil // it is gone, as was asked
	}
	if errors.Is(err, forage.ErrNotFound) {
		return s.downOrphan(ctx, name, how, err)
	}
	if _, broken := errors.AsType[*store.BrokenError](err); broken {
		if force {
			return s.removeBroken(ctx, name)
		}
		return forage.WithHint(err, "`forage-ctl down --force "+name+"` removes it all the same; your own folders stay")
	}
	return err
}

// downOrphan removes what was made for a sandbox whose record is gone. notFound is the answer if there is nothing.
func (s *Service) downOrphan(ctx context.Context, name string, how workspace.Removal, notFound error) error {
	unlock, err := s.Store.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	made, err := s.noted(name)
	if err != nil {
		return err
	}
	if len(made) == 0 {
		return notFound
	}
	if how == workspace.RemoveSaved {
		if err := s.nothingUnsaved(ctx, name, made); err != nil {
			return err
		}
	}
	if err := s.removeWorkspaces(ctx, name, made, how); err != nil {
		return err
	}
	return s.Store.Delete(name, false) // what was kept beside the record
}

// removeBroken removes a sandbox whose record says nothing, by its name.
func (s *Service) removeBroken(ctx context.Context, name string) error {
	unlock, err := s.Store.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.halt(ctx, store.Record{Name: name}); err != nil {
		return err
	}
	for _, runtimeName := range s.Runtimes.Names() {
		if err := s.destroy(ctx, name, runtimeName); err != nil {
			return err
		}
	}
	made, err := s.noted(name)
	if err == nil {
		err = s.removeWorkspaces(ctx, name, made, workspace.RemoveForced)
	}
	if err != nil {
		return err
	}
	return s.Store.Delete(name, false)
}

// halt makes sure that nothing of the sandbox runs.
func (s *Service) halt(ctx context.Context, record store.Record) error {
	dir := s.Places.Of(record.Name).Dir
	if !supervisor.Alive(dir) {
		return nil
	}
	err := s.client(record.Name).End(ctx, stopGrace)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		// A supervisor that can't do its work is ended; the sandbox ends with it.
		// One that can't be reached is on its way out by itself: whoever started
		// it has gone, or else would hold the sandbox.
		err = errors.Join(err, supervisor.Kill(dir))
	}
	gone := make(chan error, 1)
	go func() { gone <- supervisor.WaitGone(dir) }()
	select {
	case waitErr := <-gone:
		return waitErr
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(goneLimit):
		return errors.Join(fmt.Errorf("the supervisor of %s does not end", record.Name), err)
	}
}

// remove takes away everything that Forage made for a sandbox that does not
// run. taken: a supervisor that was on its way has it.
func (s *Service) remove(ctx context.Context, record store.Record, how workspace.Removal) error {
	return s.unheld(record.Name, func() error { return s.clear(ctx, record, how) })
}

// taken says that a supervisor stands behind a sandbox that had none.
type taken struct{ error }

func (t taken) Unwrap() error { return t.error }

// unheld runs f while no supervisor can take the sandbox: one that starts looks
// at the record after it has the lock. What is left in the run-time folder goes.
func (s *Service) unheld(name string, f func() error) error {
	lock, err := supervisor.Acquire(s.Places.Of(name).Dir)
	if errors.Is(err, forage.ErrRefused) {
		return taken{err}
	}
	if err != nil {
		return err
	}
	return errors.Join(f(), lock.Release())
}

// clear is remove for who holds the supervisor's lock. The record comes last,
// so that an interrupted removal is found again.
func (s *Service) clear(ctx context.Context, record store.Record, how workspace.Removal) error {
	parts := record.Plan.Workspaces()
	if how == workspace.RemoveSaved {
		if err := s.nothingUnsaved(ctx, record.Name, parts); err != nil {
			return err
		}
	}
	if !record.Plan.Ephemeral { // a run's record always says that it has to go
		record.Phase = forage.PhaseRemoving
		if err := s.Store.Save(record); err != nil {
			return err
		}
	}
	if err := s.destroy(ctx, record.Name, record.Runtime); err != nil {
		return err
	}
	if err := s.removeWorkspaces(ctx, record.Name, parts, how); err != nil {
		return err
	}
	// What a run was allowed to do stays on record.
	return s.Store.Delete(record.Name, record.Plan.Ephemeral)
}

// destroy removes what a runtime left of a sandbox that does not run.
func (s *Service) destroy(ctx context.Context, name, runtimeName string) error {
	rt, err := s.Runtimes.New(runtimeName)
	if err != nil {
		return err
	}
	if err := rt.Destroy(ctx, name); err != nil {
		return fmt.Errorf("removing what %s left of %s: %w", runtimeName, name, err)
	}
	return nil
}

// locked runs f with the record of a sandbox that no other process is
// changing, after finishing whatever was interrupted before.
func (s *Service) locked(ctx context.Context, name string, f func(store.Record) error) error {
	unlock, err := s.Store.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	record, err := s.settled(ctx, name)
	if err != nil {
		return err
	}
	return f(record)
}
