package jjrepo

import (
	"context"
	"errors"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// root is the user's workspace of jj's that w works on.
func root(w forage.Workspace) string {
	if w.Mode == forage.WorkspaceDirect {
		return w.Path
	}
	return w.Source
}

// In runs f with a shadow of the user's repository.
func In(ctx context.Context, w forage.Workspace, scratch string, f func(*Shadow) error) error {
	r, err := Open(ctx, root(w))
	if err != nil {
		return forage.WithHint(forage.Errorf(forage.ErrRefused, "the jj repository of %s is gone: %w", root(w), err), "move it back")
	}
	return r.In(ctx, scratch, f)
}

// In runs f with a shadow.
func (r *Repository) In(ctx context.Context, scratch string, f func(*Shadow) error) error {
	s, err := r.Shadow(ctx, scratch)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

// Update is workspace.Provider.Update of what jj alone has.
func Update(ctx context.Context, w forage.Workspace, scratch string) (u workspace.Update, err error) {
	if gitrepo.RemovalBegun(w) {
		return u, nil
	}
	err = In(ctx, w, scratch, func(s *Shadow) error {
		u, err = s.Import(ctx, w)
		return err
	})
	return u, err
}

// Status is workspace.Provider.Status. What can't be found out is a problem, not an error: the work counts as unsaved then.
func Status(ctx context.Context, w forage.Workspace, scratch string) (status workspace.Status, err error) {
	if gitrepo.RemovalBegun(w) {
		return status, nil
	}
	err = In(ctx, w, scratch, func(s *Shadow) error {
		status, err = s.Unsaved(ctx, w)
		return err
	})
	if err != nil && ctx.Err() == nil {
		return workspace.Status{Problem: err.Error()}, nil
	}
	return status, err
}
