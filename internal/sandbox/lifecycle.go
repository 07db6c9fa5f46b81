package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"forage"
	"forage/internal/agent"
	"forage/internal/deadline"
	"forage/internal/sshkeys"
	"forage/internal/store"
	"forage/internal/supervisor"
	"forage/internal/workspace"
)

// Up creates a sandbox and starts it; a stopped one with the same plan is
// started again. It returns when the sandbox is usable.
func (s *Service) Up(ctx context.Context, opts Options) (Status, error) {
	for range maxPlans - 1 {
		if status, err := s.up(ctx, opts); !errors.Is(err, errOutdated) {
			return status, err
		}
	}
	return s.up(ctx, opts)
}

// maxPlans is how often Up plans: others may be at work on the same name, such as a supervisor that
// undoes a start that was killed.
const maxPlans = 5

var errOutdated = errors.New("it was made or removed while this was planned")

func outdated(name string) error {
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "another command is working on the sandbox %q: %w", name, errOutdated), "try again")
}

// unattended says whether a sandbox that is locked by us is being started: its launcher was killed.
// The record of a run says so to its end.
func unattended(record store.Record) bool {
	return record.Phase == forage.PhaseCreating && !record.Plan.Ephemeral
}

// startLook is how often a start is looked at whose caller has gone.
const startLook = 10 * time.Millisecond

// awaitStart waits until such a start has succeeded after all, or its supervisor has taken it back.
func (s *Service) awaitStart(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, deadline.Answer, forage.WithHint(
		forage.Errorf(forage.ErrRefused, "a start of the sandbox %q that was interrupted has not ended in %v", name, deadline.Answer),
		"forage-ctl down "+name))
	defer cancel()
	for s.alive(name) {
		if record, err := s.Store.Load(name); err != nil || !unattended(record) {
			return nil // what is wrong is met again
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(startLook):
		}
	}
	return nil
}

func (s *Service) up(ctx context.Context, opts Options) (Status, error) {
	if err := s.tidy(ctx, opts.Name); err != nil {
		return Status{}, err
	}
	planned, err := s.planned(ctx, opts)
	if err != nil {
		return Status{}, err
	}
	if planned.missing != nil {
		return Status{}, planned.missing
	}
	plan := planned.plan
	s.tell(append(planned.notes, logoutNote(s.Caller.UID, s.Caller.User, "/")))
	s.tellAlong(planned.along)
	unlock, err := s.lock(ctx, plan.Name)
	if err != nil {
		return Status{}, err
	}
	defer unlock()
	running := s.alive(plan.Name)
	record, err := s.settled(ctx, plan.Name)
	if !errors.Is(err, forage.ErrNotFound) && err != nil {
		return Status{}, err
	}
	switch there := err == nil; {
	case there && running && unattended(record):
		if err = s.awaitStart(ctx, plan.Name); err == nil {
			err = outdated(plan.Name)
		}
	case there && running:
		err = forage.WithHint(
			forage.Errorf(forage.ErrRefused, "a sandbox named %q is already running", plan.Name),
			"attach with `forage-ctl ssh "+plan.Name+"`, or choose another name")
	case !record.CreatedAt.Equal(planned.against):
		err = outdated(plan.Name)
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

// tidy finishes an interrupted creation or removal of the sandbox, so that what is half made is not
// in the way of the next plan for that name. If there was none, it writes nothing.
func (s *Service) tidy(ctx context.Context, name string) error {
	record, err := s.Store.Load(name)
	listed := errors.Is(err, forage.ErrNotFound) && len(s.stillListed(name)) > 0
	if !listed && (err != nil || unsettled(record) == "" || s.alive(name)) {
		return nil // what is wrong is met again
	}
	unlock, err := s.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	if listed {
		return s.unlist(ctx, name)
	}
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

// createFilled is create, with a function that fills the workspaces before anything runs in them;
// nil: they stay as they are made.
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
	if err = errors.Join(s.prepareFiles(record, hostKey), s.removeHome(plan.Name)); err == nil { // of one whose record was lost
		record, err = s.createWorkspaces(ctx, record, fill)
	}
	if err == nil {
		err = s.keepLook(ctx, &record)
	}
	if err == nil {
		record, err = s.spawnSomewhere(ctx, record, hostEnv)
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, s.remove(context.WithoutCancel(ctx), record, unmake(record)))
}

// createWorkspaces makes the workspaces of a sandbox that is on record.
func (s *Service) createWorkspaces(ctx context.Context, record store.Record, fill func(context.Context, store.Record) error) (store.Record, error) {
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
	record.WorkspaceReady = true
	return record, s.Store.Save(record)
}

// unmake is how the workspaces of a sandbox are taken away that came to nothing: with work in them,
// if something may have run inside.
func unmake(record store.Record) workspace.Removal {
	switch {
	case !record.WorkspaceReady:
		return workspace.RemoveUnused
	case record.Plan.Ephemeral:
		return workspace.RemoveButBranch
	default:
		return workspace.RemoveForced
	}
}

// awaitFree waits for a run that has taken back its record, and has its lock still.
func (s *Service) awaitFree(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, deadline.End, forage.WithHint(
		forage.Errorf(forage.ErrRefused, "a sandbox called %s is running that is not on record in %s", name, s.Places.State),
		"choose another name, or end it with the state folder that it was started with"))
	defer cancel()
	return s.awaitEnd(ctx, name)
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
	if _, err := s.Store.Load(plan.Name); errors.Is(err, forage.ErrNotFound) { // one that is on record is refused, and not waited for
		if err := s.awaitFree(ctx, plan.Name); err != nil {
			return store.Record{}, err
		}
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
	return s.locked(ctx, name, func(store.Record) error {
		if s.alive(name) {
			if err := s.client(name).StartWindow(ctx); err == nil || s.alive(name) {
				return err
			}
		}
		record, err := s.settled(ctx, name) // it may have ended meanwhile
		if err != nil {
			return err
		}
		s.tell(s.missingSecrets(record.Plan))
		if err := s.launch(ctx, record); err != nil {
			return err
		}
		s.tellResume(record)
		return nil
	})
}

// tellResume says how the agent goes on with its last conversation, which lasts as long as the
// home.
func (s *Service) tellResume(record store.Record) {
	command := record.Plan.Spec.Command
	if len(command) == 0 || record.Plan.Spec.KeptHome == "" {
		return
	}
	if known, ok := agent.Lookup(command[0]); ok {
		s.notify(fmt.Sprintf("%s was started afresh; `forage-ctl exec %s -- %s` goes on with its last conversation",
			known.Name, record.Name, strings.Join(known.Resume, " ")))
	}
}

// launch starts a supervisor for a sandbox that is on record and not running.
func (s *Service) launch(ctx context.Context, record store.Record) error {
	if err := s.Places.MakeRuntime(); err != nil { // it may be gone since the record was made
		return err
	}
	if err := stillThere(record.Plan, "started"); err != nil {
		return err
	}
	hostEnv, err := s.hostEnv(record.Plan)
	if err != nil {
		return err
	}
	if err := makeRoom(record.Plan); err != nil { // the user may have taken it away
		return err
	}
	if !record.Expires.IsZero() { // a run's result, which is a sandbox like others from now on
		record.Expires = time.Time{}
		if err := s.Store.Save(record); err != nil {
			return err
		}
	}
	record, err = s.spawnSomewhere(ctx, record, hostEnv)
	if err != nil {
		record.Phase, record.Reason = forage.PhaseFailed, err.Error()
		return errors.Join(err, s.Store.Save(record))
	}
	return nil
}

// spawnSomewhere starts a supervisor, on another port where another program took the recorded one.
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
	if err == nil {
		s.keepSSHConfig()
	}
	return record, err
}

// ports is where a sandbox's SSH port may be: not one of taken.
func (s *Service) ports(taken ...int) store.Ports {
	return store.Ports{Listen: s.Config.SSHListen, From: s.Config.PortRange.From, To: s.Config.PortRange.To, Skip: taken}
}

func (s *Service) spawn(ctx context.Context, record store.Record, hostEnv map[string]string) error {
	if err := errors.Join(makeHome(record.Plan.Spec), makeVolumes(record.Plan.Spec)); err != nil {
		return err
	}
	end := s.progress(starting(record.Plan))
	err := supervisor.Spawn(ctx, supervisor.Launch{
		StateDir: s.Places.State, RuntimeDir: s.Places.Runtime, Name: record.Name,
		Listen: s.Config.SSHListen, HostEnv: hostEnv, SecretEnv: s.secretEnv(record.Plan),
		Notify: s.Config.Notify,
	}, s.Places.Of(record.Name).Crash)
	end()
	if err != nil { // it may be on its way out still, or have succeeded when ctx ended
		err = errors.Join(err, s.halt(context.WithoutCancel(ctx), record))
	}
	return err
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

// starting says what is done while a sandbox starts.
func starting(plan forage.Plan) string {
	what := "starting " + plan.Name
	if ref := plan.Spec.Rootfs.Ref; ref != "" { // an image may be pulled and unpacked
		what += ", from " + ref
	}
	return what
}

// bringCommits is updateWorkspaces for who has done what was asked: what can't be brought is said.
func (s *Service) bringCommits(ctx context.Context, plan forage.Plan) {
	defer s.progress("bringing commits out of " + plan.Name)()
	if err := s.updateWorkspaces(ctx, plan); err != nil {
		s.notify(err.Error())
	}
}

// Reset stops the sandbox and starts it afresh, with an empty home: everything but the workspace
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
		s.snapshotBefore(ctx, record, "reset")
		s.tell(s.missingSecrets(record.Plan))
		if err := stillThere(record.Plan, "started"); err != nil { // before the home goes
			return err
		}
		if err := s.removeHome(name); err != nil {
			return err
		}
		return s.launch(ctx, record)
	})
}

// locked runs f with the record of a sandbox that no other process is
// changing, after finishing whatever was interrupted before.
func (s *Service) locked(ctx context.Context, name string, f func(store.Record) error) error {
	unlock, err := s.lock(ctx, name)
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

// soon is how long a command that has ended waits for its commits: the supervisor brings what takes
// longer.
const soon = 5 * time.Second

// bringSoon is bringCommits for a sandbox that goes on: the command does not wait for a big import.
func (s *Service) bringSoon(ctx context.Context, plan forage.Plan) {
	defer s.progress("bringing commits out of " + plan.Name)()
	bringing, enough := context.WithTimeout(ctx, soon)
	defer enough()
	err := s.updateWorkspaces(bringing, plan)
	switch {
	case err == nil:
	case bringing.Err() != nil && ctx.Err() == nil:
		s.notify("the commits of " + plan.Name + " are still being brought to its repository: `forage-ctl status " + plan.Name + "` says when they are there")
	default:
		s.notify(err.Error())
	}
}
