package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"forage"
	"forage/internal/hostile"
	"forage/internal/sandbox/work"
	"forage/internal/store"
	"forage/internal/supervisor"
	"forage/internal/term"
	"forage/internal/workspace"
)

// ending is what the end of a run needs.
type ending struct {
	lock    *supervisor.Lock
	before  work.Baselines
	started bool // something may have run inside
	exit    *int // of the command
}

// endRun keeps a run as a stopped sandbox, if that was asked for or there is work in it that is
// nowhere else, or removes it. Nothing of it runs any more.
func (s *Service) endRun(ctx context.Context, record store.Record, end ending) error {
	asked := !record.Plan.Ephemeral
	kept := end.started && (asked || s.Work.HasResult(ctx, record.Plan))
	if kept && !asked {
		record.Plan.Ephemeral, record.Plan.Spec.Session = false, true // as `up` would have made it
		record.Expires = time.Now().UTC().Add(workspace.RecoveryKept)
		if err := s.keepFiles(record, end); err != nil {
			s.Notify(err.Error())
			record.Plan.Ephemeral, kept = true, false // what can be kept of the work is kept as of one that is removed
		}
	}
	if !kept {
		return errors.Join(s.clear(ctx, record, unmake(record)), end.lock.Release())
	}
	record.Phase, record.Reason, record.ExitCode = forage.PhaseStopped, "its command ended", end.exit
	err := errors.Join(s.Host.Store.Save(record), end.lock.Release())
	if err == nil {
		s.Notify(keptNote(record))
	}
	return err
}

// keepFiles makes what a sandbox that stays has beside its record.
func (s *Service) keepFiles(record store.Record, end ending) error {
	if err := s.prepareFiles(record.Name); err != nil {
		return err
	}
	return store.WriteJSON(s.Work.LookFile(record.Name), end.before)
}

// keptNote says what can be done with a run that was kept.
func keptNote(record store.Record) string {
	name := record.Name
	if record.Expires.IsZero() {
		return fmt.Sprintf("%s is kept: `forage-ctl start %s` starts it again, `forage-ctl down %s` removes it", name, name, name)
	}
	note := fmt.Sprintf("the work of %s is kept for %d days: `forage-ctl diff %s` shows it, %s",
		name, int(workspace.RecoveryKept/(24*time.Hour)), name, work.WayToTake(name, record.Plan.Workspace))
	if size := sizeOnDisk(record.Plan.Workspaces()); size >= worthSaying {
		note += "; its files take " + term.Bytes(size)
	}
	return note
}

// worthSaying is how many bytes on disk a note names.
const worthSaying = 1 << 30

// sizeOnDisk is how many bytes the files of these workspaces take, as far as it can be counted.
func sizeOnDisk(workspaces []forage.Workspace) (size int64) {
	for _, w := range workspaces {
		if w.Mode == forage.WorkspaceDirect {
			continue
		}
		has, _ := hostile.Measure(w.Path, "")
		size += has.OnDisk
	}
	return size
}

// results removes the results of runs whose time is over, or whose work is all in the user's
// repositories by now, and the oldest of the rest that take more room than all may.
func (c *collector) results(ctx context.Context) error {
	records, _, err := c.Host.Store.List()
	errs := []error{err}
	records = slices.DeleteFunc(records, func(r store.Record) bool { return r.Expires.IsZero() })
	slices.SortFunc(records, func(a, b store.Record) int { return b.Expires.Compare(a.Expires) })
	var taken int64
	for _, listed := range records {
		errs = append(errs, c.UnlessBusy(listed.Name, func() error {
			record, err := c.Host.Store.Load(listed.Name)
			if err != nil || record.Expires.IsZero() || c.Host.Alive(record.Name) {
				return nil // it was removed or started meanwhile
			}
			why, how := "the run's work is all in your repository", workspace.RemoveSaved
			if time.Now().After(record.Expires) {
				why, how = "the run's work was kept until "+record.Expires.Format(time.DateOnly), workspace.RemoveForced
			} else if slices.ContainsFunc(record.Plan.Workspaces(), func(w forage.Workspace) bool { return c.WorthKeeping(ctx, w) != "" }) {
				why, how = "", workspace.RemoveForced
				taken += sizeOnDisk(record.Plan.Workspaces())
				if most := c.Host.Config.KeptRunsMax; most > 0 && taken > most {
					why = fmt.Sprintf("it and newer results of runs take %s, more than keptRunsMax", term.Bytes(taken))
				}
			}
			if why == "" {
				return nil
			}
			return c.Do(record.Name, "removed it: "+why, func() error { return c.remove(ctx, record, how) })
		}))
	}
	return errors.Join(errs...)
}
