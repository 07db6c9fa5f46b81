package jj

import (
	"context"
	"errors"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/jjrepo"
)

// Update brings finished commits to the bookmark.
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
func (p Provider) Remove(ctx context.Context, w forage.Workspace, how workspace.Removal) ([]workspace.Recovery, error) {
	if gitrepo.Removed(w) && how != workspace.RemoveUnused {
		return nil, nil
	}
	kept, err := jjrepo.Remove(ctx, w, how, p.Places.Scratch, func(s *jjrepo.Shadow) error { return p.takeAway(ctx, s, w) })
	return kept, wrap("removing", w, err)
}

// takeAway removes all that make makes, as far as it is there. Without a shadow the user's repository is gone.
func (p Provider) takeAway(ctx context.Context, shadow *jjrepo.Shadow, w forage.Workspace) error {
	if shadow != nil {
		if err := errors.Join(shadow.ForgetWorkspace(ctx, name(w)), shadow.DropTip(ctx, w)); err != nil {
			return err
		}
	}
	if err := gitrepo.RemoveTree(w.Path); err != nil {
		return err
	}
	return gitrepo.RemovePrivate(*w.Repository)
}
