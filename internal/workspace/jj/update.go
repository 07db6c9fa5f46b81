package jj

import (
	"context"
	"errors"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/jjrepo"
)

// Update brings finished commits to gitrepo.TipRef, which jj doesn't look at: nothing of the user's moves before `apply`.
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
	if how != workspace.RemoveUnused && !gitrepo.RemovalBegun(w) {
		if kept, _, err = gitrepo.BeforeRemoval(ctx, p, w, how, p.Places); err == nil {
			err = gitrepo.BeginRemoval(*w.Repository, gitrepo.Removal{})
		}
		if err != nil {
			return kept, wrap("removing", w, err)
		}
	}
	return kept, wrap("removing", w, p.takeAway(ctx, w))
}

// takeAway removes all that Create makes, as far as it is there. The user's repository may be gone.
func (p Provider) takeAway(ctx context.Context, w forage.Workspace) error {
	r, err := jjrepo.Open(ctx, w.Source)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		err = r.In(ctx, p.Places.Scratch, func(s *jjrepo.Shadow) error {
			return errors.Join(s.ForgetWorkspace(ctx, name(w)), s.Git.DropTip(ctx, w))
		})
		if err != nil {
			return err
		}
	}
	if err := gitrepo.RemoveTree(w.Path); err != nil {
		return err
	}
	return gitrepo.RemovePrivate(*w.Repository)
}
