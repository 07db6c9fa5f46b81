// Package jj is the jj workspace.Provider: a real workspace of the user's jj repository on the
// host, and inside, over its .jj, a private jj repository that has the host's commits read-only.
// Between them jjrepo imports. The host's workspace is the user's to use: nothing here ever moves
// it.
package jj

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"forage"
	"forage/internal/hostile"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/jjrepo"
)

// Provider is the jj workspace.Provider.
type Provider struct {
	Places workspace.Places
}

var _ workspace.Provider = Provider{}

// Plan finds the repository and the commit to start from, and that the names are free.
func (p Provider) Plan(ctx context.Context, request workspace.Request) (forage.Workspace, error) {
	repo, err := open(ctx, request.Path)
	if err != nil {
		return forage.Workspace{}, err
	}
	w, layout := gitrepo.Planned(request, forage.WorkspaceJJ)
	w.Source = repo.Root
	if w.Repository, err = repo.PlanPrivate(layout); err != nil {
		return forage.Workspace{}, err
	}
	if old := request.Existing; old != nil && old.Mode == w.Mode && old.Path == w.Path {
		w.Base = old.Base
		return w, nil
	}
	err = repo.In(ctx, p.Places.Scratch, func(s *jjrepo.Shadow) error {
		if err = free(ctx, s, w); err == nil {
			w.Base, err = s.Start(ctx, request.Branch)
		}
		return err
	})
	return w, err
}

// open finds the repository that the user means.
func open(ctx context.Context, path string) (*jjrepo.Repository, error) {
	repo, err := jjrepo.Open(ctx, path)
	switch {
	case err == nil:
		return repo, nil
	case errors.Is(err, os.ErrNotExist):
		return nil, forage.Errorf(forage.ErrUsage, "opening the jj repository: %w", err)
	case !errors.Is(err, jjrepo.ErrNoRepository):
		return nil, err
	}
	hint := "name the folder that has .jj in it, or make one: jj git init"
	resolved := workspace.Resolved(path)
	if _, gitErr := gitrepo.Open(ctx, path); gitErr == nil {
		hint = "for a git repository use --git-worktree; or let jj use it as well: jj git init --colocate"
	} else if root := gitrepo.JJAbove(resolved); root != "" {
		hint = "the repository begins at " + root + ": name that folder"
	} else if root, _, _ := gitrepo.Around(resolved); root != "" {
		hint = "git has the repository " + root + ": name it with --git-worktree"
	}
	return nil, forage.WithHint(forage.Errorf(forage.ErrUsage, "opening the jj repository: %w", err), hint)
}

// name is what the workspace is called in jj, on the host and inside.
func name(w forage.Workspace) string { return filepath.Base(w.Path) }

// free refuses names that are taken.
func free(ctx context.Context, shadow *jjrepo.Shadow, w forage.Workspace) error {
	copies, err := shadow.WorkingCopies(ctx)
	if err != nil {
		return err
	}
	if copies[name(w)] != "" {
		return forage.WithHint(forage.Errorf(forage.ErrRefused, "%s has a jj workspace %q already", w.Source, name(w)),
			"choose another name, or: jj workspace forget "+name(w))
	}
	return workspace.Free(w.Path)
}

// wrap says which workspace an error is about.
func wrap(doing string, w forage.Workspace, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s the jj workspace %s: %w", doing, name(w), err)
}

// Create makes the host's workspace, and the private repository for the sandbox.
func (p Provider) Create(ctx context.Context, w forage.Workspace) (err error) {
	undo := func() error { return p.takeAway(context.WithoutCancel(ctx), w) }
	if err = undo(); err == nil { // what a crash left
		err = jjrepo.In(ctx, w, p.Places.Scratch, func(shadow *jjrepo.Shadow) error { return p.make(ctx, shadow, w) })
		if err != nil {
			err = errors.Join(err, undo())
		}
	}
	return wrap("making", w, err)
}

func (p Provider) make(ctx context.Context, shadow *jjrepo.Shadow, w forage.Workspace) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := os.MkdirAll(p.Places.Trees, 0o700); err != nil {
		return err
	}
	parent := w.Base
	if parent == "" {
		parent = "root()"
	}
	if err := shadow.AddWorkspace(ctx, name(w), w.Path, parent); err != nil {
		return err
	}
	if err := noGit(w); err != nil {
		return err
	}
	return shadow.CreatePrivate(ctx, w)
}

// noGit makes a .git in the working folder that leads nowhere. In a folder without one git takes
// the files HEAD, objects, refs and config for a bare repository, and executes what that config
// says: an agent that makes them at the root of its workspace would run commands in the prompt of
// whoever goes there. jj doesn't look at it.
func noGit(w forage.Workspace) error {
	file, err := os.OpenFile(filepath.Join(w.Path, ".git"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = file.WriteString("gitdir: " + filepath.Join(w.Repository.Dir, "there-is-no-git-repository-here") + "\n")
	return errors.Join(err, file.Close())
}

// Update brings finished commits to gitrepo.TipRef, which jj doesn't look at: nothing of the user's
// moves before `apply`.
func (p Provider) Update(ctx context.Context, w forage.Workspace) (workspace.Update, error) {
	u, err := jjrepo.Update(ctx, w, p.Places.Scratch)
	return u, wrap("bringing work from", w, err)
}

// Status says what is nowhere else.
func (p Provider) Status(ctx context.Context, w forage.Workspace) (workspace.Status, error) {
	status, err := jjrepo.Status(ctx, w, p.Places.Scratch)
	return status, wrap("looking for work in", w, err)
}

// Remove takes away the workspace on the host and the private repository.
func (p Provider) Remove(ctx context.Context, w forage.Workspace, how workspace.Removal) (kept []workspace.Recovery, err error) {
	if how != workspace.RemoveUnused {
		if gitrepo.Removed(w) {
			return nil, nil
		}
		_, kept, err = gitrepo.Removing(ctx, p, []forage.Workspace{w}, how, p.Places)
	}
	if err == nil {
		err = p.takeAway(ctx, w)
	}
	return kept, wrap("removing", w, err)
}

// takeAway removes all that Create makes, as far as it is there. The user's repository may be gone.
func (p Provider) takeAway(ctx context.Context, w forage.Workspace) error {
	r, err := jjrepo.Open(ctx, w.Source)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		err = r.In(ctx, p.Places.Scratch, func(s *jjrepo.Shadow) error {
			return errors.Join(s.ForgetWorkspace(ctx, name(w)), s.Git.DropRefs(ctx, map[string]string{gitrepo.TipRef(w): ""}))
		})
		if err != nil {
			return err
		}
	}
	if err := hostile.RemoveAll(w.Path); err != nil {
		return err
	}
	return gitrepo.RemovePrivate(*w.Repository)
}
