package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"forage"
	"forage/internal/store"
	"forage/internal/term"
	"forage/internal/workspace/snapshot"
)

// SnapshotOptions say what Snapshot keeps.
type SnapshotOptions struct {
	Label   string
	Ignored bool // what the repository ignores too
}

// maxLabel bounds a label, in bytes.
const maxLabel = 200

// maxAutomatic is how much is copied for a snapshot that was not asked for, where the file system
// can't share blocks: a folder of hundreds of gigabytes is not copied because a sandbox starts
// afresh.
const maxAutomatic = 8 << 30

func (s *Service) snapshots() snapshot.Store {
	return snapshot.Store{Dir: s.Workspaces.Places.Snapshots}
}

// Snapshot keeps the workspace of a sandbox as it is now, all parts of it, with its private
// repositories.
func (s *Service) Snapshot(ctx context.Context, name string, o SnapshotOptions) (made snapshot.Snapshot, err error) {
	if len(o.Label) > maxLabel {
		return made, forage.Errorf(forage.ErrUsage, "a label has at most %d bytes", maxLabel)
	}
	err = s.locked(ctx, name, func(record store.Record) error {
		for _, w := range record.Plan.Workspaces() {
			if !exists(w.Path) {
				return gone(name, w, "kept", w.Path)
			}
		}
		request, err := s.snapshotOf(ctx, record.Plan, o.Ignored)
		if err != nil {
			return err
		}
		request.Of, request.Label = record.CreatedAt, o.Label
		defer s.progress("taking a snapshot of " + name)()
		made, err = s.snapshots().Create(ctx, request)
		return err
	})
	return made, err
}

// snapshotBefore keeps the workspace of a sandbox before something is done with it, in a snapshot
// that goes by itself. That it can't be made is said, and keeps nothing from being done: what is to
// come does not mean to change the workspace. The caller holds the sandbox's lock.
func (s *Service) snapshotBefore(ctx context.Context, record store.Record, what string) {
	request, err := s.snapshotOf(ctx, record.Plan, false)
	if err == nil {
		request.Of, request.Label, request.Automatic, request.MaxCopied = record.CreatedAt, "before "+what, true, maxAutomatic
		end := s.progress("taking a snapshot before " + what)
		_, err = s.snapshots().Create(ctx, request)
		end()
	}
	if err != nil && ctx.Err() == nil {
		s.notify(fmt.Sprintf("no snapshot was made before %s: %v", what, err))
	}
}

// Snapshots are those of a sandbox, which may be gone, the oldest first. Where there is one of that
// name, those of earlier ones are only in it with all; earlier is how many there are.
func (s *Service) Snapshots(name string, all bool) (list []snapshot.Snapshot, earlier int, err error) {
	if err := forage.CheckName(name); err != nil {
		return nil, 0, err
	}
	list, err = s.snapshots().List(name)
	record, missing := s.Store.Load(name)
	if missing != nil {
		if len(list) == 0 && err == nil {
			err = missing
		}
		return list, 0, err
	}
	own := slices.DeleteFunc(slices.Clone(list), func(one snapshot.Snapshot) bool { return !one.Of.Equal(record.CreatedAt) })
	if earlier = len(list) - len(own); all {
		return list, earlier, err
	}
	return own, earlier, err
}

// Restore makes the workspace of a sandbox, which may run, what it was. before is the snapshot of
// what it was until then.
func (s *Service) Restore(ctx context.Context, name, id string) (before snapshot.Snapshot, err error) {
	err = s.locked(ctx, name, func(record store.Record) error {
		one, err := s.findSnapshot(name, id)
		if err != nil {
			return err
		}
		id := one.ID
		if !one.Of.Equal(record.CreatedAt) {
			return forage.WithHint(
				forage.Errorf(forage.ErrRefused, "the snapshot %s is of another sandbox that was called %s", id, name),
				"add --to FOLDER to have its files somewhere else")
		}
		request, err := s.snapshotOf(ctx, record.Plan, one.Ignored)
		if err != nil {
			return err
		}
		request.Of, request.Label, request.Automatic = record.CreatedAt, "before restore of "+id, true
		end := s.progress("restoring the workspace of " + name)
		before, err = s.snapshots().Restore(ctx, name, id, request)
		end()
		if err != nil {
			return err
		}
		s.bringCommits(ctx, record.Plan)
		return nil
	})
	return before, err
}

// Export writes the files of a snapshot to a folder, which must be empty or not there. The sandbox
// may be gone. Of several parts each gets a folder in it.
func (s *Service) Export(ctx context.Context, name, id, to string) error {
	if err := s.knows(name); err != nil {
		return err
	}
	one, err := s.findSnapshot(name, id)
	if err != nil {
		return err
	}
	if to, err = s.Caller.abs(to); err != nil {
		return err
	}
	var folders []snapshot.Folder
	for _, folder := range one.Folders {
		if filepath.Base(folder) == folder { // not a private repository
			folders = append(folders, snapshot.Folder{Name: folder, Path: filepath.Join(to, folder)})
		}
	}
	if len(folders) == 1 {
		folders[0].Path = to
	}
	defer s.progress("writing " + to)()
	return s.snapshots().Export(ctx, name, one.ID, folders)
}

// findSnapshot finds a snapshot by its ID, or by its label if no other has the same.
func (s *Service) findSnapshot(name, called string) (snapshot.Snapshot, error) {
	one, err := s.snapshots().Find(name, called)
	if err == nil || called == "" {
		return one, err
	}
	all, _, listErr := s.Snapshots(name, false)
	if listErr != nil {
		return one, err
	}
	others := slices.DeleteFunc(all, func(other snapshot.Snapshot) bool { return other.Label != called })
	switch len(others) {
	case 0:
		return one, err
	case 1:
		return others[0], nil
	}
	return one, forage.WithHint(
		forage.Errorf(forage.ErrUsage, "%d snapshots of %s are called %q", len(others), name, called), "name one by its ID: `forage-ctl snapshot "+name+" list` shows them")
}

// DeleteSnapshot removes one, by its ID or label.
func (s *Service) DeleteSnapshot(name, called string) error {
	if err := s.knows(name); err != nil {
		return err
	}
	err := s.snapshots().Delete(name, called) // one that can't be read too
	if !errors.Is(err, forage.ErrUsage) {
		return err
	}
	one, err := s.findSnapshot(name, called)
	if err != nil {
		return err
	}
	return s.snapshots().Delete(name, one.ID)
}

// DeleteSnapshots removes all of a name, those of earlier sandboxes too.
func (s *Service) DeleteSnapshots(name string) error {
	list, _, err := s.Snapshots(name, true)
	if err != nil {
		return err
	}
	var errs []error
	for _, one := range list {
		errs = append(errs, s.snapshots().Delete(name, one.ID))
	}
	return errors.Join(errs...)
}

// tellSnapshots says what stays of a sandbox that was removed.
func (s *Service) tellSnapshots(record store.Record) {
	list, _ := s.snapshots().List(record.Name) // what can't be read takes no room worth a word
	list = slices.DeleteFunc(list, func(one snapshot.Snapshot) bool { return !one.Of.Equal(record.CreatedAt) })
	if len(list) == 0 {
		return
	}
	size := list[0].Bytes
	for _, one := range list[1:] {
		size += one.Added
	}
	s.notify(fmt.Sprintf("kept for %d days: %s of %s, about %s; `forage-ctl snapshot %s delete --all` removes what is kept",
		int(snapshot.Kept/(24*time.Hour)), term.Count(len(list), "snapshot"), record.Name, term.Bytes(size), record.Name))
}

// knows is an error for a name that is that of no sandbox, and of none that left snapshots.
func (s *Service) knows(name string) error {
	_, _, err := s.Snapshots(name, true)
	if errors.Is(err, forage.ErrUsage) || errors.Is(err, forage.ErrNotFound) {
		return err
	}
	return nil // that one of its snapshots can't be read does not prevent another
}

// oldSnapshots removes snapshots whose time is over. Those of a record that can't be read stay.
func (c *collector) oldSnapshots() error {
	records, broken, err := c.Store.List()
	if err != nil {
		return err
	}
	there := make(map[string]time.Time)
	for _, record := range records {
		there[record.Name] = record.CreatedAt
	}
	unknown := make(map[string]bool)
	for _, one := range broken {
		unknown[one.Name] = true
	}
	said, err := c.snapshots().Collect(snapshot.Collection{
		Exists: func(name string, of time.Time) bool { return unknown[name] || there[name].Equal(of) }, Now: time.Now(), DryRun: c.dryRun,
	})
	for _, what := range said {
		c.actions = append(c.actions, Action{What: what})
	}
	if err != nil {
		err = fmt.Errorf("collecting snapshots: %w", err)
	}
	return err
}

// snapshotOf is what a snapshot of a workspace consists of.
func (s *Service) snapshotOf(ctx context.Context, plan forage.Plan, ignored bool) (snapshot.Request, error) {
	request := snapshot.Request{Sandbox: plan.Name, Ignored: ignored}
	var errs []error
	for _, w := range plan.Workspaces() {
		folders, err := s.foldersOf(ctx, w, ignored)
		request.Folders = append(request.Folders, folders...)
		errs = append(errs, err)
	}
	return request, errors.Join(errs...)
}
