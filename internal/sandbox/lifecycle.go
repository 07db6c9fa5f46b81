package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"forage"
	"forage/internal/agent"
	"forage/internal/hostile"
	"forage/internal/sandbox/plan"
	"forage/internal/sandbox/work"
	"forage/internal/sshkeys"
	"forage/internal/store"
	"forage/internal/supervisor"
	"forage/internal/workspace"
)

// Up creates a sandbox and starts it; a stopped one with the same plan is
// started again. It returns when the sandbox is usable.
func (s *Service) Up(ctx context.Context, opts plan.Options) (Status, error) {
	unlock, err := s.lock(ctx, opts.Name)
	if err != nil {
		return Status{}, err
	}
	defer unlock()
	record, there, err := s.found(ctx, opts.Name)
	if err != nil {
		return Status{}, err
	}
	if err := s.build(ctx, &opts); err != nil {
		return Status{}, err
	}
	made, err := s.Host.Plan(ctx, opts)
	if err == nil {
		err = made.Missing
	}
	if err != nil {
		return Status{}, err
	}
	s.tell(append(made.Notes, logoutNote(s.Host.Caller.UID, s.Host.Caller.User, "/")))
	s.tellDetail(made.Detail)
	switch {
	case there && s.Host.Alive(opts.Name):
		err = forage.WithHint(
			forage.Errorf(forage.ErrRefused, "a sandbox named %q is already running", opts.Name),
			"attach with `forage-ctl ssh "+opts.Name+"`, or choose another name")
	case there:
		if err = plan.Same(record.Plan, made.Plan); err == nil {
			err = s.launch(ctx, record)
		}
	default:
		err = s.create(ctx, made.Plan, nil)
	}
	if err != nil {
		return Status{}, err
	}
	record, err = s.Host.Store.Load(opts.Name)
	return s.status(ctx, record), err
}

// found is the record of a sandbox whose lock the caller holds, if there is one, after what was
// interrupted of it is finished: what is half made is not in the way of a plan for that name.
func (s *Service) found(ctx context.Context, name string) (record store.Record, there bool, err error) {
	record, err = s.settled(ctx, name)
	if errors.Is(err, forage.ErrNotFound) {
		return record, false, s.Work.Unlist(ctx, name)
	}
	return record, err == nil, err
}

// tell passes on what the user should know.
func (s *Service) tell(notes []string) {
	for _, note := range notes {
		if note != "" {
			s.Notify(note)
		}
	}
}

func (s *Service) tellDetail(texts []string) {
	for _, text := range texts {
		if s.detail != nil {
			s.detail(text)
		}
	}
}

// create makes the record and the keys of a new sandbox and starts it. fill, if set, fills the
// workspaces before anything runs in them. When that fails, nothing is left.
func (s *Service) create(ctx context.Context, plan forage.Plan, fill func(context.Context, store.Record) error) error {
	hostEnv, err := s.Host.HostEnv(plan)
	if err != nil {
		return err
	}
	record, err := s.newRecord(ctx, plan)
	if err != nil {
		return err
	}
	if err = errors.Join(s.prepareFiles(record.Name), s.removeHome(plan.Name)); err == nil { // of one whose record was lost
		record, err = s.createWorkspaces(ctx, record, fill)
	}
	if err == nil {
		err = s.Work.KeepLook(ctx, &record)
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
	if err := s.Work.Make(ctx, record.Plan); err != nil {
		return record, err
	}
	if fill != nil {
		if err := fill(ctx, record); err != nil {
			return record, err
		}
	}
	if len(work.MadeParts(record.Plan)) == 0 {
		return record, nil
	}
	record.WorkspaceReady = true
	return record, s.Host.Store.Save(record)
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

// newRecord puts the sandbox on record, which reserves its name and its port.
func (s *Service) newRecord(ctx context.Context, plan forage.Plan) (store.Record, error) {
	if err := s.Host.Places.MakeRuntime(); err != nil {
		return store.Record{}, err
	}
	if _, err := s.Host.Store.Load(plan.Name); errors.Is(err, forage.ErrNotFound) && s.Host.Alive(plan.Name) {
		return store.Record{}, forage.WithHint(
			forage.Errorf(forage.ErrRefused, "a sandbox called %s is running that is not on record in %s", plan.Name, s.Host.Places.State),
			"choose another name, or end it with the state folder that it was started with")
	}
	var ports store.Ports
	if !plan.Ephemeral {
		ports = s.ports()
	}
	return s.Host.Store.Create(ctx, withWorkspaces(store.Record{
		Name: plan.Name, Template: plan.Template, Runtime: plan.Runtime,
		CreatedAt: time.Now().UTC(), Phase: forage.PhaseCreating,
		Plan: plan, Network: plan.Network,
	}), ports)
}

// prepareFiles makes what a sandbox that outlives its command keeps beside its record: the
// host key of its SSH port is one of them.
func (s *Service) prepareFiles(name string) error {
	paths := s.Host.Places.Of(name)
	if err := os.MkdirAll(paths.Generated, 0o700); err != nil {
		return fmt.Errorf("making the sandbox's folder: %w", err)
	}
	hostKey, err := sshkeys.NewHost()
	if err != nil {
		return err
	}
	hostLine, err := sshkeys.HostLine(hostKey)
	if err != nil {
		return err
	}
	return errors.Join(
		sshkeys.SaveHost(paths.HostKey, hostKey),
		os.WriteFile(paths.KnownHosts, []byte(hostAlias(name)+" "+hostLine+"\n"), 0o600))
}

// Start starts a stopped sandbox from its frozen plan; in a running one it
// starts the agent's window again if that has ended.
func (s *Service) Start(ctx context.Context, name string) error {
	return s.locked(ctx, name, func(store.Record) error {
		if s.Host.Alive(name) {
			if err := s.client(name).StartWindow(ctx); err == nil || s.Host.Alive(name) {
				return err
			}
		}
		record, err := s.settled(ctx, name) // it may have ended meanwhile
		if err != nil {
			return err
		}
		s.tell(s.Host.MissingSecrets(record.Plan))
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
		s.Notify(fmt.Sprintf("%s was started afresh; `forage-ctl exec %s -- %s` goes on with its last conversation",
			known.Name, record.Name, strings.Join(known.Resume, " ")))
	}
}

// launch starts a supervisor for a sandbox that is on record and not running.
func (s *Service) launch(ctx context.Context, record store.Record) error {
	if err := s.Host.Places.MakeRuntime(); err != nil { // it may be gone since the record was made
		return err
	}
	if err := work.StillThere(record.Plan, "started"); err != nil {
		return err
	}
	hostEnv, err := s.Host.HostEnv(record.Plan)
	if err != nil {
		return err
	}
	if err := work.MakeRoom(record.Plan); err != nil { // the user may have taken it away
		return err
	}
	if !record.Expires.IsZero() || record.ExitCode != nil { // a run's result, which is a sandbox like others from now on
		record.Expires, record.ExitCode = time.Time{}, nil
		if err := s.Host.Store.Save(record); err != nil {
			return err
		}
	}
	record, err = s.spawnSomewhere(ctx, record, hostEnv)
	if err != nil {
		record.Phase, record.Reason = forage.PhaseFailed, err.Error()
		return errors.Join(err, s.Host.Store.Save(record))
	}
	return nil
}

// spawnSomewhere starts a supervisor, on another port where another program took the recorded one.
func (s *Service) spawnSomewhere(ctx context.Context, record store.Record, hostEnv map[string]string) (store.Record, error) {
	err := s.spawn(ctx, record, hostEnv)
	for taken := []int(nil); errors.Is(err, forage.ErrNoPort); {
		taken = append(taken, record.Port)
		moved, moveErr := s.Host.Store.MovePort(ctx, record, s.ports(taken...))
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
	return store.Ports{Listen: s.Host.Config.SSHListen, From: s.Host.Config.PortRange.From, To: s.Host.Config.PortRange.To, Skip: taken}
}

func (s *Service) spawn(ctx context.Context, record store.Record, hostEnv map[string]string) error {
	if err := errors.Join(makeHome(record.Plan.Spec), makeVolumes(record.Plan.Spec)); err != nil {
		return err
	}
	if err := s.pull(ctx, record.Plan.Spec); err != nil {
		return err
	}
	end := s.Progress(starting(record.Plan))
	err := supervisor.Spawn(ctx, supervisor.Launch{
		StateDir: s.Host.Places.State, RuntimeDir: s.Host.Places.Runtime, Name: record.Name,
		Listen: s.Host.Config.SSHListen, HostEnv: hostEnv, SecretEnv: s.Host.SecretEnv(record.Plan),
		Notify: s.Host.Config.Notify, Prefix: s.Host.Config.ContainerPrefix, Via: s.via,
	}, s.Host.Places.Of(record.Name).Crash)
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
		s.Work.BringCommits(ctx, record.Plan)
		s.Work.TellCount(ctx, record)
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

// Reset stops the sandbox and starts it afresh, with an empty home: everything but the workspace
// and what is mounted is as it was at first.
func (s *Service) Reset(ctx context.Context, name string) error {
	return s.locked(ctx, name, func(record store.Record) error {
		if err := s.halt(ctx, record); err != nil {
			return err
		}
		record, err := s.Host.Store.Load(name)
		if err != nil {
			return err
		}
		s.Work.SnapshotBefore(ctx, record, "reset")
		s.tell(s.Host.MissingSecrets(record.Plan))
		if err := work.StillThere(record.Plan, "started"); err != nil { // before the home goes
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

// The home of a sandbox that stays is a folder of the state folder. Everything in it was written
// inside: on the host it is mounted and removed, and nothing in it is ever opened.

// makeHome makes the home that is kept, unless it is there.
func makeHome(spec forage.Spec) error {
	if spec.KeptHome == "" {
		return nil
	}
	return makeOwned(spec.KeptHome, spec.Identity)
}

// makeOwned makes a folder of the agent's below the state folder, unless it is there.
func makeOwned(path string, who forage.Identity) error {
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.Mkdir(path, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if info, statErr := os.Lstat(path); err == nil && statErr == nil && info.Sys().(*syscall.Stat_t).Uid == 0 { // root made it
		err = os.Lchown(path, who.HostUID, who.HostGID)
	}
	if err != nil {
		return forage.WithHint(fmt.Errorf("making %s: %w", path, err), forage.HintWritableState)
	}
	return nil
}

// removeHome removes the home of a sandbox that does not run. It is moved first: a sandbox never
// starts with half of one.
func (s *Service) removeHome(name string) error {
	if err := removeOwned(s.Host.HomeOf(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the home of %s: %w", name, err)
	}
	return nil
}

// removeOwned removes a folder that makeOwned has made. It is fs.ErrNotExist if there is none.
func removeOwned(path string) error {
	gone := filepath.Join(filepath.Dir(path), beingRemoved+filepath.Base(path)+"."+rand.Text())
	if err := os.Rename(path, gone); err != nil {
		return err
	}
	return hostile.RemoveAll(gone)
}

// beingRemoved begins the name of a home or volume that is being removed.
const beingRemoved = "."

// forget removes the last of a sandbox: its home and its record.
func (s *Service) forget(name string, keepAudit bool) error {
	if err := s.removeHome(name); err != nil {
		return err
	}
	return s.Host.Store.Delete(name, keepAudit)
}

// lostHomes removes the homes of sandboxes that are on no record, and what is left of removals of
// homes and volumes that were killed.
func (c *collector) lostHomes() error {
	homes, _ := filepath.Glob(filepath.Join(c.Host.HomesDir(), "*")) // the pattern is right
	removed, _ := filepath.Glob(filepath.Join(c.Host.VolumesDir(), beingRemoved+"*"))
	var errs []error
	for _, path := range append(homes, removed...) {
		name, removed := strings.CutPrefix(filepath.Base(path), beingRemoved)
		name, _, _ = strings.Cut(name, ".")
		if forage.CheckName(name) != nil {
			continue // not ours
		}
		errs = append(errs, c.UnlessBusy(name, func() error {
			if !removed && c.OnRecord(name) {
				return nil
			}
			return c.Do(name, "removed "+path, func() error { return hostile.RemoveAll(path) })
		}))
	}
	return errors.Join(errs...)
}

// withWorkspaces fills in what a record says of its plan's workspaces.
func withWorkspaces(record store.Record) store.Record {
	main := record.Plan.Workspace
	record.Workspace, record.WorkspaceMode = main.Path, main.Mode
	record.SourceRepo, record.GitBranch = main.Source, main.Branch
	if main.Mode == forage.WorkspaceJJ {
		record.JJWorkspaceName = record.Name
	}
	if len(record.Plan.Parts) == 0 {
		return record
	}
	for _, w := range record.Plan.Workspaces() {
		record.WorkspaceMounts = append(record.WorkspaceMounts, store.WorkspaceMount{
			Name: w.Name, ContainerPath: w.Target, HostPath: w.Path, SourceRepo: w.Source,
			Mode: string(w.Mode), Branch: w.Branch, ReadOnly: w.ReadOnly,
		})
	}
	return record
}

// lockNotice is after how long the user is told what is waited for. Most of what is done to a
// sandbox takes less.
const lockNotice = 5 * time.Second

// lock is Store.Lock that says so when it waits.
func (s *Service) lock(ctx context.Context, name string) (unlock func(), err error) {
	notice := time.AfterFunc(lockNotice, func() {
		s.Notify("waiting for another forage-ctl that works on " + name + "; if it was stopped (Ctrl-Z), have it go on, or end it")
	})
	defer notice.Stop()
	return s.Host.Store.Lock(ctx, name)
}
