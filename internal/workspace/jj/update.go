package jj

import (
	"context"
	"errors"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/jjrepo"
)

// in runs f with a shadow of the user's repository.
func (p Provider) in(ctx context.Context, w forage.Workspace, f func(*jjrepo.Shadow) error) error {
	repo, err := jjrepo.Open(ctx, w.Source)
	if err != nil {
		return err
	}
	shadow, err := repo.Shadow(ctx, p.Places.Scratch)
	if err != nil {
		return err
	}
	return errors.Join(f(shadow), shadow.Close())
}

// Update brings finished commits to the bookmark.
func (p Provider) Update(ctx context.Context, w forage.Workspace) (u workspace.Update, err error) {
	if gitrepo.RemovalBegun(w) {
		return u, nil
	}
	err = p.in(ctx, w, func(s *jjrepo.Shadow) error {
		u, err = s.Import(ctx, w)
		return err
	})
	return u, wrap("bringing work from", w, err)
}

// Status says what is nowhere else. What it can't find out is a problem, not an error: the work counts as unsaved then.
func (p Provider) Status(ctx context.Context, w forage.Workspace) (status workspace.Status, err error) {
	if gitrepo.RemovalBegun(w) {
		return status, nil
	}
	err = p.in(ctx, w, func(s *jjrepo.Shadow) error {
		status, err = s.Unsaved(ctx, w)
		return err
	})
	if err != nil && ctx.Err() == nil {
		status.Problem = err.Error()
		return status, nil
	}
	return status, wrap("looking for work in", w, err)
}

// Remove takes away the workspace on the host and the private repository.
func (p Provider) Remove(ctx context.Context, w forage.Workspace, how workspace.Removal) (kept []workspace.Recovery, err error) {
	if _, gone := jjrepo.Open(ctx, w.Source); gone != nil && ctx.Err() == nil {
		return p.removeAlone(w, how, gone)
	}
	err = p.in(ctx, w, func(s *jjrepo.Shadow) error {
		if gitrepo.Removed(w) { // and nobody is making it any more
			return nil
		}
		if !gitrepo.RemovalBegun(w) && how != workspace.RemoveUnused {
			if kept, err = s.BeforeRemoval(ctx, w, how); err != nil {
				return err
			}
			if err := gitrepo.BeginRemoval(*w.Repository, gitrepo.Removal{}); err != nil {
				return err
			}
		}
		return p.takeAway(ctx, s, w)
	})
	return kept, wrap("removing", w, err)
}

// removeAlone removes a workspace whose repository can't be opened any more.
func (p Provider) removeAlone(w forage.Workspace, how workspace.Removal, gone error) (kept []workspace.Recovery, err error) {
	if gitrepo.Removed(w) {
		return nil, nil
	}
	switch how {
	case workspace.RemoveSaved:
		return nil, forage.WithHint(
			forage.Errorf(forage.ErrRefused, "the repository %s of this workspace is gone, and its work can't be looked at: %w", w.Source, gone),
			"move it back; or use --force, which keeps all of the workspace for 30 days")
	case workspace.RemoveUnused:
	default:
		if kept, err = jjrepo.KeepWhole(w); err != nil {
			return kept, wrap("keeping", w, err)
		}
	}
	return kept, wrap("removing", w, p.removeFolders(w))
}
