package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/hostile"
	"forage/internal/store"
	"forage/internal/supervisor"
	"forage/internal/term"
	"forage/internal/workspace"
)

// ending is what the end of a run needs.
type ending struct {
	lock    *supervisor.Lock
	hostKey []byte
	before  baselines
	started bool // something may have run inside
}

// endRun keeps a run as a stopped sandbox, if that was asked for or there is work in it that is
// nowhere else, or removes it. Nothing of it runs any more.
func (s *Service) endRun(ctx context.Context, record store.Record, end ending) error {
	asked := !record.Plan.Ephemeral
	kept := end.started && (asked || s.hasResult(ctx, record.Plan))
	if kept && !asked {
		record.Plan.Ephemeral, record.Plan.Spec.Session = false, true // as `up` would have made it
		record.Expires = time.Now().UTC().Add(workspace.RecoveryKept)
		if err := s.keepFiles(record, end); err != nil {
			s.notify(err.Error())
			record.Plan.Ephemeral, kept = true, false // what can be kept of the work is kept as of one that is removed
		}
	}
	if !kept {
		return errors.Join(s.clear(ctx, record, unmake(record)), end.lock.Release())
	}
	record.Phase, record.Reason = forage.PhaseStopped, "its command ended"
	err := errors.Join(s.Store.Save(record), end.lock.Release())
	if err == nil {
		s.notify(keptNote(record))
	}
	return err
}

// keepFiles makes what a sandbox that stays has beside its record.
func (s *Service) keepFiles(record store.Record, end ending) error {
	if err := s.prepareFiles(record, end.hostKey); err != nil {
		return err
	}
	return writeJSON(s.lookFile(record.Name), end.before)
}

// hasResult says whether a run's own trees have work that is nowhere else. That of the user's own
// folder is there.
func (s *Service) hasResult(ctx context.Context, plan forage.Plan) bool {
	trees := slices.DeleteFunc(plan.Workspaces(), func(w forage.Workspace) bool { return w.Mode == forage.WorkspaceDirect })
	return slices.ContainsFunc(s.work(ctx, savePatience, trees), func(w Work) bool { return w.Unsaved })
}

// keptNote says what can be done with a run that was kept.
func keptNote(record store.Record) string {
	name := record.Name
	if record.Expires.IsZero() {
		return fmt.Sprintf("%s is kept: `forage-ctl start %s` starts it again, `forage-ctl down %s` removes it", name, name, name)
	}
	note := fmt.Sprintf("the work of %s is kept for %d days: `forage-ctl diff %s` shows it, %s",
		name, int(workspace.RecoveryKept/(24*time.Hour)), name, takeOver(name, record.Plan.Workspace))
	if size := sizeOnDisk(record.Plan.Workspaces()); size >= worthSaying {
		note += "; its files take " + term.Bytes(size)
	}
	return note
}

// takeOver says what brings the work of a part to the user.
func takeOver(name string, w forage.Workspace) string {
	if w.Mode == forage.WorkspaceClone && forage.IsURL(w.Source) {
		return fmt.Sprintf("`git fetch %s %s`, in a repository of yours, brings its commits", term.ShellWord(w.Repository.Store), w.Branch)
	}
	return "`forage-ctl apply " + name + "` brings it into your repository"
}

// worthSaying is how many bytes on disk a note names.
const worthSaying = 1 << 30

// sizeOnDisk is how many bytes the files of these workspaces take, as far as it can be counted.
func sizeOnDisk(workspaces []forage.Workspace) (size int64) {
	for _, w := range workspaces {
		if w.Mode == forage.WorkspaceDirect {
			continue
		}
		_ = hostile.Walk(w.Path, func(_ string, st *unix.Stat_t) error {
			size += st.Blocks * 512
			return nil
		})
	}
	return size
}

// results removes the results of runs whose time is over, or whose work is all in the user's
// repositories by now.
func (c *collector) results(ctx context.Context) error {
	records, _, err := c.Store.List()
	errs := []error{err}
	for _, listed := range records {
		if listed.Expires.IsZero() {
			continue
		}
		errs = append(errs, c.unlessBusy(listed.Name, func() error {
			record, err := c.Store.Load(listed.Name)
			if err != nil || record.Expires.IsZero() || c.alive(record.Name) {
				return nil // it was removed or started meanwhile
			}
			if time.Now().After(record.Expires) {
				return c.do(record.Name, "removed it: the run's work was kept until "+record.Expires.Format(time.DateOnly), func() error {
					return c.remove(ctx, record, workspace.RemoveForced)
				})
			}
			for _, w := range record.Plan.Workspaces() {
				if c.worthKeeping(ctx, w) != "" {
					return nil
				}
			}
			return c.do(record.Name, "removed it: the run's work is all in your repository", func() error {
				return c.remove(ctx, record, workspace.RemoveSaved)
			})
		}))
	}
	return errors.Join(errs...)
}
