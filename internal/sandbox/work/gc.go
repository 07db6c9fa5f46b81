package work

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"forage"
	"forage/internal/deadline"
	"forage/internal/hostile"
	"forage/internal/store"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/snapshot"
)

// Action is something that gc did, or would do.
type Action struct {
	Sandbox string `json:"sandbox"`
	What    string `json:"what"` // "removed the run-time folder", in a rehearsal "would have removed the run-time folder"
}

// Collector is what gc does, or with DryRun would do, about the work of sandboxes that are gone.
type Collector struct {
	*Keeper
	DryRun  bool
	Actions []Action
}

// Collect removes what is left of work, unless it exists nowhere else, and what was kept long
// enough.
func (c *Collector) Collect(ctx context.Context) error {
	return errors.Join(c.orphans(ctx), c.unlisted(ctx), c.strangers(), c.scratch(), c.recoveries(ctx),
		c.oldSnapshots(), c.quarantines(), c.halfCopies())
}

// Do notes an action and, unless this is a rehearsal, carries it out.
func (c *Collector) Do(sandbox, what string, act func() error) error {
	c.Actions = append(c.Actions, Action{Sandbox: sandbox, What: what})
	if c.DryRun {
		return nil
	}
	return act()
}

// UnlessBusy runs f while no other process works on the sandbox, and leaves it
// to that process if one does.
func (c *Collector) UnlessBusy(name string, f func() error) error {
	unlock, ok, err := c.Host.Store.TryLock(name)
	if err != nil || !ok {
		return err
	}
	defer unlock()
	return f()
}

// orphans are workspaces with a note and without a record: worktrees, jj workspaces and clones with
// their branches, and private metadata.
func (c *Collector) orphans(ctx context.Context) error {
	names, err := c.notes()
	errs := []error{err}
	for _, name := range names {
		errs = append(errs, c.UnlessBusy(name, func() error {
			if c.OnRecord(name) {
				return nil
			}
			made, err := c.Noted(name)
			if err != nil {
				return err
			}
			for _, w := range made {
				if why := c.WorthKeeping(ctx, w); why != "" {
					c.Actions = append(c.Actions, Action{
						Sandbox: name,
						What:    "left its workspace " + w.Path + ": " + why + "; `forage-ctl down --force " + name + "` keeps that for 30 days and removes the workspace",
					})
					return nil
				}
			}
			return c.Do(name, "removed the workspace that it left, without work in it", func() error {
				return c.Remove(ctx, name, made, workspace.RemoveSaved)
			})
		}))
	}
	return errors.Join(errs...)
}

// notes are the names of the sandboxes that have a note of what was made for them.
func (c *Collector) notes() ([]string, error) {
	entries, err := os.ReadDir(c.Host.Workspaces.Places.Repositories)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), ".json"); ok && forage.CheckName(name) == nil {
			names = append(names, name)
		}
	}
	return names, err
}

// OnRecord says whether there is a record of that name, be it one that can't be read.
func (c *Collector) OnRecord(name string) bool {
	_, err := c.Host.Store.Load(name)
	return !errors.Is(err, forage.ErrNotFound)
}

// WorthKeeping says what of w is nowhere else; "" is nothing. In a rehearsal nothing is brought to
// a repository.
func (c *Collector) WorthKeeping(ctx context.Context, w forage.Workspace) string {
	provider, err := c.Host.Workspaces.New(w.Mode)
	if err != nil {
		return err.Error()
	}
	ctx, enough := within(ctx, deadline.Progress)
	defer enough()
	if !c.DryRun {
		if _, err := provider.Update(ctx, w); err != nil {
			return err.Error()
		}
	}
	status, err := c.saidOf(ctx, provider, w)
	if err != nil {
		return err.Error()
	}
	if !status.Unsaved() {
		return ""
	}
	return Work{Branch: w.Branch, Status: status}.Text()
}

// unlisted are worktrees that were removed while their repository was gone, which is back.
func (c *Collector) unlisted(ctx context.Context) error {
	var errs []error
	for _, w := range c.StillListed("*") {
		name := gitrepo.Sandbox(w)
		errs = append(errs, c.UnlessBusy(name, func() error {
			if c.OnRecord(name) || !gitrepo.StillListed(w) {
				return nil
			}
			return c.Do(name, "removed its worktree from "+w.Source+", which was gone when the sandbox was removed", func() error { return c.Unlist(ctx, name) })
		}))
	}
	return errors.Join(errs...)
}

// strangers looks for folders in our places that no record and no note explains. Empty ones are
// removed; the others are left and named.
func (c *Collector) strangers() error {
	var errs []error
	for _, dir := range []string{c.Host.Workspaces.Places.Trees, c.Host.Workspaces.Places.Repositories} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, entry := range entries {
			name, _, _ := strings.Cut(entry.Name(), ".")
			if !entry.IsDir() || forage.CheckName(name) != nil {
				continue
			}
			errs = append(errs, c.UnlessBusy(name, func() error {
				path := filepath.Join(dir, entry.Name())
				made, err := c.Noted(name)
				if err != nil || len(made) > 0 || c.OnRecord(name) {
					return err
				}
				inside, err := os.ReadDir(path)
				if errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				if err != nil {
					return err
				}
				if len(inside) > 0 {
					c.Actions = append(c.Actions, Action{Sandbox: name, What: "left " + path + ": no record says what it is; look into it and remove it by hand"})
					return nil
				}
				return c.Do(name, "removed the empty folder "+path, func() error { return os.Remove(path) })
			}))
		}
	}
	return errors.Join(errs...)
}

// scratch removes the scratch folders of processes that were killed.
func (c *Collector) scratch() error {
	abandoned, err := workspace.AbandonedScratch(c.Host.Workspaces.Places.Scratch)
	errs := []error{err}
	for _, path := range abandoned {
		if !c.DryRun { // not worth a word
			errs = append(errs, hostile.RemoveAll(path))
		}
	}
	return errors.Join(errs...)
}

// recoveries deletes removed work that was kept for workspace.RecoveryKept.
func (c *Collector) recoveries(ctx context.Context) error {
	files, err := filepath.Glob(filepath.Join(c.Host.Workspaces.Places.Recovery(), "*.json"))
	errs := []error{err}
	for _, file := range files {
		var kept []workspace.Recovery
		if err := store.ReadJSON(file, &kept); errors.Is(err, fs.ErrNotExist) {
			continue // a removal has ended meanwhile
		} else if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, r := range kept {
			if time.Since(r.Made) < workspace.RecoveryKept {
				kept = nil // they were made together
			}
		}
		if len(kept) == 0 {
			continue
		}
		errs = append(errs, c.Do(kept[0].Sandbox, "let go of the removed work that was kept since "+kept[0].Made.Format(time.DateOnly), func() error {
			if strings.HasSuffix(file, removing) {
				return errors.Join(c.afterKilled(ctx, file, kept), os.RemoveAll(file))
			}
			for _, r := range kept {
				if err := gitrepo.Expire(ctx, r, c.Host.Workspaces.Places.Scratch); err != nil {
					return err
				}
			}
			return os.RemoveAll(file) // or another gc has
		}))
	}
	return errors.Join(errs...)
}

// quarantineKept is how long after the end of a run Quarantine still works for it.
const quarantineKept = 30 * 24 * time.Hour

// quarantines removes the notes that Quarantine has of runs that ended long ago. What it moved
// aside stays for good.
func (c *Collector) quarantines() error {
	dir := filepath.Join(c.Host.Places.State, "quarantine")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, entry := range entries {
		name, isNote := strings.CutSuffix(entry.Name(), ".json")
		info, err := entry.Info()
		if !isNote || err != nil || time.Since(info.ModTime()) < quarantineKept {
			continue
		}
		errs = append(errs, c.Do(name, "removed what quarantine would need", func() error { return os.RemoveAll(filepath.Join(dir, entry.Name())) }))
	}
	return errors.Join(errs...)
}

// afterKilled lets go what removals of a sandbox have kept that were killed: all of it that no
// other note tells of.
func (c *Collector) afterKilled(ctx context.Context, note string, places []workspace.Recovery) error {
	told, err := c.toldOf(note)
	if err != nil {
		return err
	}
	name := places[0].Sandbox
	entries, err := os.ReadDir(c.Host.Workspaces.Places.Recovery())
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(c.Host.Workspaces.Places.Recovery(), entry.Name())
		if entry.IsDir() && strings.HasPrefix(entry.Name(), name+".") && !told[path] {
			if err := hostile.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	for _, place := range places {
		if place.Ref == "" {
			continue
		}
		if err := gitrepo.ExpireBelow(ctx, place, func(ref string) bool { return told[place.Store+" "+ref] }, c.Host.Workspaces.Places.Scratch); err != nil {
			return err
		}
	}
	return nil
}

// toldOf is what the notes of removals tell of, but for one: folders, and refs with their store
// before them.
func (c *Collector) toldOf(but string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(c.Host.Workspaces.Places.Recovery(), "*.json"))
	told := make(map[string]bool)
	for _, file := range files {
		if file == but {
			continue
		}
		var kept []workspace.Recovery
		if err := store.ReadJSON(file, &kept); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err // not known
		}
		for _, r := range kept {
			told[r.Folder], told[r.Store], told[r.Store+" "+r.Ref] = true, true, true
		}
	}
	return told, err
}

// oldSnapshots removes snapshots whose time is over. Those of a record that can't be read stay.
func (c *Collector) oldSnapshots() error {
	records, broken, err := c.Host.Store.List()
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
		Exists: func(name string, of time.Time) bool { return unknown[name] || there[name].Equal(of) }, Now: time.Now(), DryRun: c.DryRun,
	})
	for _, what := range said {
		c.Actions = append(c.Actions, Action{What: what})
	}
	if err != nil {
		err = fmt.Errorf("collecting snapshots: %w", err)
	}
	return err
}
