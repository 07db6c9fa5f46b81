package direct

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/jjrepo"
)

// planJJ covers the .jj at the root of the folder with a private one, if there is one. Where git and jj share a
// repository, that is one more mount beside git's; elsewhere it is the whole of w's private metadata.
func planJJ(ctx context.Context, request workspace.Request, w *forage.Workspace) (err error) {
	r, err := jjrepo.Open(ctx, w.Path)
	if errors.Is(err, jjrepo.ErrNoRepository) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := jjrepo.Installed(); err != nil {
		return err
	}
	layout := gitrepo.Layout{
		Dir:  workspace.Resolved(request.Places.Repository(request.Sandbox, request.Name)),
		Part: request.Name, Target: request.Target, ReadOnly: request.ReadOnly,
	}
	if w.Repository != nil {
		if !r.Colocated {
			return forage.WithHint(
				forage.Errorf(forage.ErrUnsupported, "%s has a .git and a .jj that are different repositories", w.Path),
				"move one of them away, or use --git-worktree or --repo")
		}
		w.Repository.Mounts = append(w.Repository.Mounts, jjrepo.MountPrivate(layout))
		return nil
	}
	if request.Branch != "" {
		return forage.WithHint(
			forage.Errorf(forage.ErrUsage, "the user's own folder is where it is: --branch has no meaning there"),
			"use --repo for a workspace of its own")
	}
	if w.Repository, err = r.PlanPrivate(layout); err != nil {
		return err
	}
	w.Branch = gitrepo.Branch(request.Sandbox, request.Name)
	if request.Existing != nil {
		w.Base = request.Existing.Base
		return nil
	}
	return inJJ(ctx, r, request.Places.Scratch, func(s *jjrepo.Shadow) error {
		w.Base, err = s.Start(ctx, "")
		return err
	})
}

// inJJ runs f with a shadow of the repository.
func inJJ(ctx context.Context, r *jjrepo.Repository, scratch string, f func(*jjrepo.Shadow) error) error {
	s, err := r.Shadow(ctx, scratch)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

// onJJ is inJJ for a workspace that has been made.
func (p Provider) onJJ(ctx context.Context, w forage.Workspace, f func(*jjrepo.Shadow) error) error {
	r, err := jjrepo.Open(ctx, w.Path)
	if err != nil {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "the jj repository of %s is gone: %w", w.Path, err), "move it back")
	}
	return inJJ(ctx, r, p.Places.Scratch, f)
}

// isJJ says whether jj alone has the repository of w.
func isJJ(w forage.Workspace) bool {
	return w.Repository != nil && w.Repository.Kind == forage.RepositoryJJ
}

// createJJ makes the private .jj; for a repository that jj alone has, the git directory below it as well.
func (p Provider) createJJ(ctx context.Context, w forage.Workspace) error {
	if !jjrepo.Has(w.Repository) {
		return nil
	}
	return p.onJJ(ctx, w, func(s *jjrepo.Shadow) error {
		if isJJ(w) {
			refs, err := s.Refs(ctx)
			if err != nil {
				return err
			}
			err = gitrepo.CreatePrivate(ctx, s.Repository.Git, gitrepo.Private{
				Repository: *w.Repository, Branch: w.Branch, Remotes: true, Refs: refs, Scratch: p.Places.Scratch,
			})
			if err != nil {
				return err
			}
		}
		name, err := s.Name(ctx)
		if err != nil {
			return err
		}
		return s.CreatePrivate(ctx, jjrepo.Private{
			Repository: *w.Repository, Workspace: name, Base: w.Base,
			TreeState: filepath.Join(w.Path, ".jj/working_copy/tree_state"),
		})
	})
}

// updateJJ is Update where jj alone has the repository.
func (p Provider) updateJJ(ctx context.Context, w forage.Workspace) (u workspace.Update, err error) {
	err = p.onJJ(ctx, w, func(s *jjrepo.Shadow) error {
		u, err = s.Import(ctx, w)
		return err
	})
	return u, err
}

// statusJJ is Status where jj alone has the repository.
func (p Provider) statusJJ(ctx context.Context, w forage.Workspace) (status workspace.Status, err error) {
	err = p.onJJ(ctx, w, func(s *jjrepo.Shadow) error {
		status, err = s.Unsaved(ctx, w)
		return err
	})
	if err != nil && ctx.Err() == nil {
		return workspace.Status{Problem: err.Error()}, nil
	}
	return status, err
}

// shared says whether git and jj share the repository of w.
func shared(w forage.Workspace) bool { return !isJJ(w) && jjrepo.Has(w.Repository) }

// elsewhereJJ adds the heads that jj alone knows, where git has been asked.
func (p Provider) elsewhereJJ(ctx context.Context, w forage.Workspace, whole *workspace.Status) error {
	if _, err := os.Lstat(w.Repository.Dir); err != nil || !shared(w) {
		return nil
	}
	err := p.onJJ(ctx, w, func(s *jjrepo.Shadow) error {
		heads, err := s.Elsewhere(ctx, w)
		whole.Elsewhere = append(whole.Elsewhere, heads...)
		return err
	})
	if err != nil && ctx.Err() == nil && whole.Problem == "" {
		whole.Problem, err = err.Error(), nil
	}
	return err
}

// keepJJ keeps the heads that elsewhereJJ finds.
func (p Provider) keepJJ(ctx context.Context, w forage.Workspace) (kept []workspace.Recovery, err error) {
	if _, err := os.Lstat(w.Repository.Dir); err != nil || !shared(w) {
		return nil, nil
	}
	err = p.onJJ(ctx, w, func(s *jjrepo.Shadow) error {
		kept, err = s.KeepElsewhere(ctx, w, gitrepo.Sandbox(w))
		return err
	})
	return kept, err
}

// removeJJ is Remove where jj alone has the repository.
func (p Provider) removeJJ(ctx context.Context, w forage.Workspace, how workspace.Removal) (kept []workspace.Recovery, err error) {
	if gitrepo.RemovalBegun(w) || how == workspace.RemoveUnused {
		return nil, gitrepo.RemovePrivate(*w.Repository)
	}
	if _, gone := jjrepo.Open(ctx, w.Path); gone != nil && ctx.Err() == nil && how != workspace.RemoveSaved {
		if kept, err = jjrepo.KeepWhole(w); err != nil {
			return kept, err
		}
		return kept, gitrepo.RemovePrivate(*w.Repository)
	}
	err = p.onJJ(ctx, w, func(s *jjrepo.Shadow) error {
		if kept, err = s.BeforeRemoval(ctx, w, how); err != nil {
			return err
		}
		if err := gitrepo.BeginRemoval(*w.Repository, gitrepo.Removal{}); err != nil {
			return err
		}
		return gitrepo.RemovePrivate(*w.Repository)
	})
	return kept, err
}
