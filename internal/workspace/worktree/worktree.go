// Package worktree is the git-worktree workspace.Provider: a real worktree of the user's repository
// on a branch of its own, with private metadata over its .git inside. It is not for reading what
// was made inside: that is package gitrepo.
package worktree

import (
	"context"
	"errors"
	"path/filepath"

	"forage"
	"forage/internal/rootfs"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// Provider is the git-worktree workspace.Provider.
type Provider struct {
	Places workspace.Places
}

var _ workspace.Provider = Provider{}

// Plan decides which branch and folder the worktree is given.
func (Provider) Plan(ctx context.Context, request workspace.Request) (forage.Workspace, error) {
	path, r, err := FindSource(ctx, request)
	if err != nil {
		return forage.Workspace{}, err
	}
	w, layout := gitrepo.Planned(request, forage.WorkspaceWorktree)
	w.Source, layout.Host = path, true
	if request.Existing != nil {
		w.Base = request.Existing.Base
	} else if w.Base, err = gitrepo.StartOf(ctx, r, request.Branch, request.Places.Scratch); err != nil {
		return forage.Workspace{}, err
	}
	if w.Repository, err = r.PlanPrivate(layout, w.Branch); err != nil {
		return forage.Workspace{}, err
	}
	if request.Existing != nil {
		return w, Check(w)
	}
	return w, free(ctx, r, w, request.Places.Scratch)
}

// FindSource opens the user's repository, and returns its folder with links resolved.
func FindSource(ctx context.Context, request workspace.Request) (string, *gitrepo.Repository, error) {
	path, err := filepath.EvalSymlinks(request.Path)
	if err != nil {
		return "", nil, forage.Errorf(forage.ErrUsage, "opening the repository: %w", err)
	}
	for _, ours := range request.Ours {
		if ours = workspace.Resolved(ours); ours != "" && rootfs.Within(path, ours) {
			return "", nil, forage.WithHint(
				forage.Errorf(forage.ErrRefused, "the repository %s is in Forage's own folder %s", path, ours),
				"name your own repository; `forage-ctl fork` makes a sandbox from another one's state")
		}
	}
	r, err := gitrepo.Open(ctx, path)
	if errors.Is(err, gitrepo.ErrNoRepository) {
		return "", nil, forage.WithHint(forage.Errorf(forage.ErrUsage, "opening the repository: %w", err), gitrepo.HintAbove(path))
	}
	return path, r, err
}

// Create makes branch, worktree and private metadata. When it fails, nothing is left.
func (p Provider) Create(ctx context.Context, w forage.Workspace) error {
	r, err := gitrepo.Open(ctx, w.Source)
	if err != nil {
		return err
	}
	if err := removeUnused(ctx, r, w, p.Places.Scratch); err != nil { // of an earlier try: to Plan, there was none, or it wasn't finished
		return err
	}
	if err := free(ctx, r, w, p.Places.Scratch); err != nil {
		return err
	}
	if err := Begin(w); err != nil {
		return err
	}
	if err := Build(ctx, r, w, p.Places.Scratch); err != nil {
		return errors.Join(err, removeUnused(context.WithoutCancel(ctx), r, w, p.Places.Scratch))
	}
	return nil
}

// Update imports the commits that were made inside, and shows the user's branches there as they are
// now.
func (p Provider) Update(ctx context.Context, w forage.Workspace) (workspace.Update, error) {
	if Ending(w) {
		return workspace.Update{}, nil
	}
	if err := Check(w); err != nil {
		return workspace.Update{}, err
	}
	update, err := gitrepo.Import(ctx, w, p.Places.Scratch)
	return update, errors.Join(err, gitrepo.ShowHost(ctx, w, p.Places.Scratch))
}

// Status says what would be lost.
func (p Provider) Status(ctx context.Context, w forage.Workspace) (workspace.Status, error) {
	if Ending(w) {
		return workspace.Status{}, nil
	}
	if err := Check(w); err != nil {
		return workspace.Status{Problem: err.Error()}, nil
	}
	return gitrepo.Unsaved(ctx, w, p.Places.Scratch)
}

// Remove takes away the worktree, its branch and the private metadata.
func (p Provider) Remove(ctx context.Context, w forage.Workspace, how workspace.Removal) ([]workspace.Recovery, error) {
	r, gone := gitrepo.Moved(w)
	if how == workspace.RemoveUnused {
		if gone != nil {
			return nil, gitrepo.RemovePrivate(*w.Repository)
		}
		return nil, removeUnused(ctx, r, w, p.Places.Scratch)
	}
	if gone == nil && Interrupted(w) {
		return nil, removeUnused(ctx, r, w, p.Places.Scratch)
	}
	if gitrepo.Removed(w) {
		return nil, gitrepo.RemovePrivate(*w.Repository)
	}
	removal, kept, err := gitrepo.Removing(ctx, p, []forage.Workspace{w}, how, p.Places)
	if err == nil && gone == nil {
		err = unmake(ctx, r, w, removal.Branch(0), p.Places.Scratch)
	}
	if err == nil {
		err = gitrepo.RemovePrivate(*w.Repository)
	}
	return kept, err
}

// Ending says whether nothing of w is to be lost: it is in being made, or in being removed, or it
// was.
func Ending(w forage.Workspace) bool { return Interrupted(w) || gitrepo.RemovalBegun(w) }
