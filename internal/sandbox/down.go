package sandbox

import (
	"context"
	"errors"
	"fmt"

	"forage"
	"forage/internal/deadline"
	"forage/internal/sandbox/work"
	"forage/internal/store"
	"forage/internal/supervisor"
	"forage/internal/workspace"
)

// Down removes the sandbox and what was made for its workspace. It refuses while work would be
// lost; with force that work is kept for workspace.RecoveryKept. The files of a direct workspace
// are the user's and stay. A sandbox whose record can't be read is removed with force only, since
// its work is not known.
func (s *Service) Down(ctx context.Context, name string, force bool) error {
	how := workspace.RemoveSaved
	if force {
		how = workspace.RemoveForced
	}
	err := s.locked(ctx, name, func(record store.Record) error {
		var before work.Marked
		parts := record.Plan.Workspaces()
		if !force && supervisor.Alive(s.Host.Places.Of(name).Dir) { // before it is stopped
			before = work.Mark(parts)
			if err := s.Work.NothingUnsaved(ctx, name, parts); err != nil {
				return err
			}
		}
		if err := s.halt(ctx, record); err != nil {
			return err
		}
		if before != nil && before.Untouched(parts) {
			how = workspace.RemoveChecked
		}
		s.Work.TellLast(ctx, record)
		if err := s.remove(ctx, record, how); err != nil {
			return err
		}
		s.Work.TellSnapshots(record)
		return nil
	})
	if was := interrupted(""); errors.As(err, &was) {
		return nil // it is gone, as was asked
	}
	_, broken := errors.AsType[*store.BrokenError](err)
	switch {
	case broken && !force:
		return forage.WithHint(err, "`forage-ctl down --force "+name+"` removes it all the same; your own folders stay")
	case broken || errors.Is(err, forage.ErrNotFound):
		return s.downByName(ctx, name, how, err)
	}
	return err
}

// downByName removes what was made for a sandbox whose record can't be read or is gone: all that is
// found by its name. why is the answer if there is nothing.
func (s *Service) downByName(ctx context.Context, name string, how workspace.Removal, why error) error {
	unlock, err := s.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	made, err := s.Work.Noted(name)
	switch {
	case err != nil:
		return err
	case !errors.Is(why, forage.ErrNotFound): // what runs without a record may be of another state folder
		err = s.halt(ctx, store.Record{Name: name})
		for _, runtimeName := range s.Host.Runtimes.Names() {
			if err == nil {
				err = s.destroy(ctx, name, runtimeName)
			}
		}
	case len(made) == 0:
		return why
	case how == workspace.RemoveSaved:
		err = s.Work.NothingUnsaved(ctx, name, made)
		how = workspace.RemoveChecked
	}
	if err == nil {
		err = s.Work.Remove(ctx, name, made, how)
	}
	if err != nil {
		return err
	}
	return s.forget(name, false) // what was kept beside the record
}

// halt makes sure that nothing of the sandbox runs.
func (s *Service) halt(ctx context.Context, record store.Record) error {
	if !supervisor.Alive(s.Host.Places.Of(record.Name).Dir) {
		return nil
	}
	defer s.Progress("stopping " + record.Name)()
	err := s.askToEnd(ctx, record.Name)
	if err != nil && ctx.Err() == nil {
		err = s.end(ctx, record.Name)
	}
	s.keepSSHConfig()
	return err
}

// askToEnd has a supervisor end its sandbox, and itself. One that can't be reached is on its way
// out by itself: its launcher has gone, or else would hold the sandbox.
func (s *Service) askToEnd(ctx context.Context, name string) error {
	ctx, cancel := deadline.Within(ctx, deadline.Answer, "the supervisor of "+name)
	defer cancel()
	if err := s.client(name).End(ctx); err != nil && !supervisor.Closed(err) {
		return err
	}
	return s.awaitEnd(ctx, name)
}

// end kills a supervisor. Its sandbox ends with it.
func (s *Service) end(ctx context.Context, name string) error {
	dir := s.Host.Places.Of(name).Dir
	ctx, cancel := deadline.Within(ctx, deadline.Answer, "the supervisor of "+name)
	defer cancel()
	err := supervisor.Kill(dir)
	if err == nil {
		err = s.awaitEnd(ctx, name)
	}
	if err != nil {
		return forage.WithHint(err, "it is a process called `forage-ctl supervisor` that has a file open in "+dir+": end it with kill -KILL")
	}
	return nil
}

// awaitEnd waits until no supervisor stands behind the sandbox.
func (s *Service) awaitEnd(ctx context.Context, name string) error {
	return deadline.Do(ctx, func() error { return supervisor.WaitGone(s.Host.Places.Of(name).Dir) })
}

// remove takes away everything that Forage made for a sandbox that does not run.
func (s *Service) remove(ctx context.Context, record store.Record, how workspace.Removal) error {
	return s.unheld(record.Name, func() error { return s.clear(ctx, record, how) })
}

// unheld runs f while no supervisor can take the sandbox. What is left in the run-time folder goes.
func (s *Service) unheld(name string, f func() error) error {
	lock, err := supervisor.Acquire(s.Host.Places.Of(name).Dir)
	if err != nil {
		return err
	}
	return errors.Join(f(), lock.Release())
}

// clear is remove for a caller that holds the supervisor's lock. The record goes last, so that an
// interrupted removal is found again.
func (s *Service) clear(ctx context.Context, record store.Record, how workspace.Removal) error {
	parts := record.Plan.Workspaces()
	if how == workspace.RemoveSaved {
		if err := s.Work.NothingUnsaved(ctx, record.Name, parts); err != nil {
			return err
		}
		how = workspace.RemoveChecked
	}
	if !record.Plan.Ephemeral { // a run's record always says that it has to go
		record.Phase = forage.PhaseRemoving
		if err := s.Host.Store.Save(record); err != nil {
			return err
		}
	}
	if err := s.destroy(ctx, record.Name, record.Runtime); err != nil {
		return err
	}
	end := s.Progress("removing the workspace of " + record.Name)
	err := s.Work.Remove(ctx, record.Name, parts, how)
	end()
	if err != nil {
		return err
	}
	// What a run was allowed to do stays on record.
	return s.forget(record.Name, record.Plan.Ephemeral)
}

// destroy removes what a runtime left of a sandbox that does not run.
func (s *Service) destroy(ctx context.Context, name, runtimeName string) error {
	rt, err := s.Host.Runtimes.New(runtimeName)
	if err != nil {
		return err
	}
	if err := rt.Destroy(ctx, name); err != nil {
		return fmt.Errorf("removing what %s left of %s: %w", runtimeName, name, err)
	}
	return nil
}
