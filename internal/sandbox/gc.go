package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"forage"
	"forage/internal/audit"
	"forage/internal/image"
	"forage/internal/sandbox/work"
	"forage/internal/store"
	"forage/internal/supervisor"
)

// auditKept is how long the audit log of a run outlives it.
const auditKept = 30 * 24 * time.Hour

// settled loads the record of a sandbox whose lock the caller holds, after
// finishing what an ended process left half done. A sandbox whose creation or
// removal was interrupted is removed, and so is a run whose process is gone.
func (s *Service) settled(ctx context.Context, name string) (store.Record, error) {
	alive := s.Host.Alive(name) // before the record is read, which is the last that a supervisor writes
	record, err := s.Host.Store.Load(name)
	if err != nil {
		return store.Record{}, err
	}
	if alive && record.Phase == forage.PhaseCreating && !record.Plan.Ephemeral { // we hold its lock: what started it was killed
		if err := s.halt(ctx, record); err != nil {
			return record, err
		}
		return s.settled(ctx, name)
	}
	if alive {
		return record, nil
	}
	switch what := unsettled(record); what {
	case "":
		return record, nil
	case failedNow:
		record.Phase, record.Reason = forage.PhaseFailed, "its supervisor died"
		err := s.unheld(name, func() error {
			return errors.Join(s.destroy(ctx, name, record.Runtime), s.Host.Store.Save(record))
		})
		return record, err
	default:
		if err := s.remove(ctx, record, unmake(record)); err != nil {
			return store.Record{}, err
		}
		return store.Record{}, forage.Errorf(forage.ErrNotFound, "no sandbox is called %s: %w", name, interrupted(what))
	}
}

// interrupted says what was done about a sandbox instead of what was asked:
// only an interrupted operation's remains were there.
type interrupted string

func (i interrupted) Error() string { return string(i) }

// What has to be done about a record that no supervisor stands behind.
const (
	failedNow  = "stopped what its supervisor left when it died"
	goneRun    = "removed what an interrupted run left"
	goneCreate = "removed what an interrupted creation left"
	goneRemove = "finished its removal"
)

// unsettled says what has to be done about a record that no supervisor stands
// behind; "" is nothing.
func unsettled(record store.Record) string {
	switch {
	case record.Plan.Ephemeral:
		return goneRun
	case record.Phase == forage.PhaseCreating:
		return goneCreate
	case record.Phase == forage.PhaseRemoving:
		return goneRemove
	case record.Phase == forage.PhaseRunning:
		return failedNow
	default:
		return ""
	}
}

// GC brings the records and what really is on this host together, and says
// what it did, or with dryRun would do. It never touches a running or stopped
// sandbox, work that is nowhere else, or a sandbox that another process is working on.
func (s *Service) GC(ctx context.Context, dryRun bool) ([]work.Action, error) {
	c := &collector{s, &work.Collector{Keeper: s.Work, DryRun: dryRun}}
	errs := []error{c.records(ctx), c.leftovers(ctx), c.Collect(ctx), c.results(ctx), c.lostHomes(), c.audits(), c.sweep(), c.images()}
	if dryRun {
		for i := range c.Actions {
			c.Actions[i].What = "would have " + c.Actions[i].What
		}
	}
	return c.Actions, errors.Join(errs...)
}

// imagesKept is how long an unpacked image stays that no sandbox uses.
const imagesKept = 30 * 24 * time.Hour

// images removes unpacked images that no sandbox on record uses. With a record that can't be read,
// none is removed.
func (c *collector) images() error {
	records, broken, err := c.Host.Store.List()
	if err != nil || len(broken) > 0 {
		return err
	}
	if err := c.pruneBuilds(records); err != nil {
		return err
	}
	removed, err := c.pruneImages(image.PruneOptions{Unused: imagesKept, Most: c.Host.Config.ImagesMax, DryRun: c.DryRun})
	for _, path := range removed {
		c.Actions = append(c.Actions, work.Action{What: "removed the unpacked image " + filepath.Base(path)})
	}
	return err
}

// sweep removes what killed processes left in the store. Locks are not worth a word.
func (c *collector) sweep() error {
	swept, err := c.Host.Store.Sweep(c.DryRun)
	for _, name := range swept {
		if !strings.HasSuffix(name, ".lock") {
			c.Actions = append(c.Actions, work.Action{What: "removed " + name})
		}
	}
	return err
}

type collector struct {
	*Service
	*work.Collector
}

// records settles every record that an ended process left half done.
func (c *collector) records(ctx context.Context) error {
	records, err := c.tellBroken() // what can't be read may stand for work: only its owner can say
	errs := []error{err}
	for _, listed := range records {
		name := listed.Name
		if unsettled(listed) == "" || c.Host.Alive(name) {
			continue
		}
		errs = append(errs, c.UnlessBusy(name, func() error {
			record, err := c.Host.Store.Load(name)
			what := unsettled(record)
			if err != nil || what == "" || c.Host.Alive(name) { // it has ended in order since it was listed
				return unlessGone(err)
			}
			return c.Do(name, what, func() error {
				_, err := c.settled(ctx, name)
				return unlessGone(err)
			})
		}))
	}
	return errors.Join(errs...)
}

// unlessGone is err, unless it is that there is no such sandbox.
func unlessGone(err error) error {
	if errors.Is(err, forage.ErrNotFound) {
		return nil
	}
	return err
}

// leftovers removes what is on this host of sandboxes that are not on record,
// or that do not run.
func (c *collector) leftovers(ctx context.Context) error {
	var errs []error
	for name, runtimeName := range c.traces(ctx, &errs) {
		if c.Host.Alive(name) {
			continue
		}
		errs = append(errs, c.UnlessBusy(name, func() error {
			if c.Host.Alive(name) {
				return nil
			}
			return c.Do(name, "removed what is left of it at run time", func() error {
				return c.unheld(name, func() error { return c.destroy(ctx, name, runtimeName) })
			})
		}))
	}
	return errors.Join(errs...)
}

// traces are the sandboxes that have something on this host at run time, with
// the runtime to ask about each.
func (c *collector) traces(ctx context.Context, errs *[]error) map[string]string {
	found := make(map[string]string)
	entries, err := os.ReadDir(c.Host.Places.Runtime)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		*errs = append(*errs, err)
	}
	for _, entry := range entries {
		if entry.IsDir() && forage.CheckName(entry.Name()) == nil {
			found[entry.Name()] = c.Host.Runtimes.Names()[0]
		}
	}
	for _, runtimeName := range c.Host.Runtimes.Names() {
		rt, err := c.Host.Runtimes.New(runtimeName)
		if err != nil {
			*errs = append(*errs, err)
			continue
		}
		names, err := rt.List(ctx)
		*errs = append(*errs, err)
		for _, name := range names {
			found[name] = runtimeName
		}
	}
	return found
}

// audits removes the audit logs of runs that ended long ago, and generated
// files and logs that belong to no record.
func (c *collector) audits() error {
	dir := filepath.Dir(store.PathsIn(c.Host.Places.State, "any").Record)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, entry := range entries {
		name, kind, ok := strings.Cut(entry.Name(), ".")
		if !ok || forage.CheckName(name) != nil {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			continue // removed meanwhile
		}
		orphan := kind == "generated" || kind == "log" || kind == "log.1" || kind == "usage.json" || kind == "shown.json"
		if strings.HasPrefix(kind, "audit.") {
			orphan = time.Since(c.lastAudited(name, info)) > auditKept
		}
		if !orphan {
			continue
		}
		errs = append(errs, c.UnlessBusy(name, func() error {
			if _, err := c.Host.Store.Load(name); !errors.Is(err, forage.ErrNotFound) {
				return nil
			}
			return c.Do(name, "removed "+entry.Name(), func() error {
				return os.RemoveAll(filepath.Join(dir, entry.Name()))
			})
		}))
	}
	return errors.Join(errs...)
}

// lastAudited is when something was written last to the audit log that file is
// a part of: its parts go together, or what is left would look tampered with.
func (c *collector) lastAudited(name string, file os.FileInfo) time.Time {
	last := file.ModTime()
	for _, path := range []string{c.Host.Places.Of(name).Audit, audit.HeadPath(c.Host.Places.Of(name).Audit)} {
		if info, err := os.Lstat(path); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

func (s *Service) client(name string) supervisor.Client {
	return supervisor.Client{Dir: s.Host.Places.Of(name).Dir, Via: s.via}
}
