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

// Look asks jj what there is to bring, to save and to keep, and notes it for gitrepo, which does so.
func Look(ctx context.Context, w forage.Workspace, scratch string) error {
	return In(ctx, w, scratch, func(s *Shadow) error {
		shown, err := s.shown(ctx, w)
		if err != nil {
			return err
		}
		heads, err := s.heads(ctx, w)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		heads.Host = shown
		return gitrepo.NoteHeads(w, heads, err)
	})
}

// Update is workspace.Provider.Update of what jj alone has: it looks only if jj has done something inside since.
func Update(ctx context.Context, w forage.Workspace, scratch string) (u workspace.Update, err error) {
	if gitrepo.RemovalBegun(w) {
		return u, nil
	}
	if of, err := state(w); err != nil || of != gitrepo.HeadsOf(w) {
		if err := Look(ctx, w, scratch); err != nil {
			return u, err
		}
	}
	return gitrepo.Import(ctx, w, scratch)
}

// Status is workspace.Provider.Status of what jj alone has.
func Status(ctx context.Context, w forage.Workspace, scratch string) (workspace.Status, error) {
	if gitrepo.RemovalBegun(w) {
		return workspace.Status{}, nil
	}
	if err := Look(ctx, w, scratch); err != nil && ctx.Err() == nil {
		return workspace.Status{Problem: err.Error()}, nil
	}
	return gitrepo.Unsaved(ctx, w, scratch)
}
