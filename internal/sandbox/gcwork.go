package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"forage"
	"forage/internal/hostile"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// workspaces removes what was made for sandboxes that are on no record any more, unless there is
// work in it.
func (c *collector) workspaces(ctx context.Context) error {
	return errors.Join(c.orphans(ctx), c.unlisted(ctx), c.strangers(), c.scratch(), c.recoveries(ctx))
}

// orphans are workspaces with a note and without a record: worktrees, jj workspaces and clones with
// their branches, and private metadata.
func (c *collector) orphans(ctx context.Context) error {
	names, err := c.notes()
	errs := []error{err}
	for _, name := range names {
		errs = append(errs, c.unlessBusy(name, func() error {
			if c.onRecord(name) {
				return nil
			}
			return c.orphan(ctx, name)
		}))
	}
	return errors.Join(errs...)
}

// notes are the names of the sandboxes that have a note of what was made for them.
func (c *collector) notes() ([]string, error) {
	entries, err := os.ReadDir(c.Workspaces.Places.Repositories)
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

// onRecord says whether there is a record of that name, be it one that can't be read.
func (c *collector) onRecord(name string) bool {
	_, err := c.Store.Load(name)
	return !errors.Is(err, forage.ErrNotFound)
}

func (c *collector) orphan(ctx context.Context, name string) error {
	made, err := c.noted(name)
	if err != nil {
		return err
	}
	for _, w := range made {
		if why := c.worthKeeping(ctx, w); why != "" {
			c.actions = append(c.actions, Action{
				Sandbox: name,
				What:    "left its workspace " + w.Path + ": " + why + "; `forage-ctl down --force " + name + "` keeps that for 30 days and removes the workspace",
			})
			return nil
		}
	}
	return c.do(name, "removed the workspace that it left, without work in it", func() error {
		return c.removeWorkspaces(ctx, name, made, workspace.RemoveSaved)
	})
}

// worthKeeping says what of w is nowhere else; "" is nothing. In a rehearsal nothing is brought to
// a repository.
func (c *collector) worthKeeping(ctx context.Context, w forage.Workspace) string {
	provider, err := c.Workspaces.New(w.Mode)
	if err != nil {
		return err.Error()
	}
	ctx, enough := within(ctx, savePatience)
	defer enough()
	if !c.dryRun {
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
func (c *collector) unlisted(ctx context.Context) error {
	var errs []error
	for _, w := range c.stillListed("*") {
		name := gitrepo.Sandbox(w)
		errs = append(errs, c.unlessBusy(name, func() error {
			if c.onRecord(name) || !gitrepo.StillListed(w) {
				return nil
			}
			return c.do(name, "removed its worktree from "+w.Source+", which was gone when the sandbox was removed", func() error { return c.unlist(ctx, name) })
		}))
	}
	return errors.Join(errs...)
}

// strangers looks for folders in our places that no record and no note explains. Empty ones are
// removed; the others are left and named.
func (c *collector) strangers() error {
	var errs []error
	for _, dir := range []string{c.Workspaces.Places.Trees, c.Workspaces.Places.Repositories} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, entry := range entries {
			name, _, _ := strings.Cut(entry.Name(), ".")
			if !entry.IsDir() || forage.CheckName(name) != nil {
				continue
			}
			errs = append(errs, c.unlessBusy(name, func() error { return c.stranger(name, filepath.Join(dir, entry.Name())) }))
		}
	}
	return errors.Join(errs...)
}

func (c *collector) stranger(name, path string) error {
	made, err := c.noted(name)
	if err != nil || len(made) > 0 || c.onRecord(name) {
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
		c.actions = append(c.actions, Action{Sandbox: name, What: "left " + path + ": no record says what it is; look into it and remove it by hand"})
		return nil
	}
	return c.do(name, "removed the empty folder "+path, func() error { return os.Remove(path) })
}

// scratch removes the scratch folders of processes that were killed.
func (c *collector) scratch() error {
	abandoned, err := workspace.AbandonedScratch(c.Workspaces.Places.Scratch)
	errs := []error{err}
	for _, path := range abandoned {
		if !c.dryRun { // not worth a word
			errs = append(errs, hostile.RemoveAll(path))
		}
	}
	return errors.Join(errs...)
}

// recoveries deletes removed work that was kept for workspace.RecoveryKept.
func (c *collector) recoveries(ctx context.Context) error {
	files, err := filepath.Glob(filepath.Join(c.Workspaces.Places.Recovery(), "*.json"))
	errs := []error{err}
	for _, file := range files {
		var kept []workspace.Recovery
		if err := readJSON(file, &kept); errors.Is(err, fs.ErrNotExist) {
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
		errs = append(errs, c.do(kept[0].Sandbox, "let go of the removed work that was kept since "+kept[0].Made.Format(time.DateOnly), func() error {
			if strings.HasSuffix(file, removing) {
				return errors.Join(c.afterKilled(ctx, file, kept), os.RemoveAll(file))
			}
			for _, r := range kept {
				if err := gitrepo.Expire(ctx, r, c.Workspaces.Places.Scratch); err != nil {
					return err
				}
			}
			return os.RemoveAll(file) // or another gc has
		}))
	}
	return errors.Join(errs...)
}
