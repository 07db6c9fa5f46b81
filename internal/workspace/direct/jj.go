package direct

import (
	"context"
	"errors"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/jjrepo"
)

// planJJ covers the .jj at the root of the folder with a private one, if there is one. Where git
// and jj share a repository, that is one more mount beside git's; elsewhere it is the whole of w's
// private metadata.
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
	planned, layout := gitrepo.Planned(request, forage.WorkspaceDirect)
	if w.Repository != nil {
		if !r.Colocated {
			return forage.WithHint(
				forage.Errorf(forage.ErrUnsupported, "%s has a .git and a .jj that are different repositories", w.Path),
				"move one of them away, or use --git-worktree or --repo")
		}
		w.Repository.Mounts = append(w.Repository.Mounts, jjrepo.MountPrivate(layout))
		return nil
	}
	if w.Repository, err = r.PlanPrivate(layout); err != nil {
		return err
	}
	w.Branch = planned.Branch
	if request.Existing != nil {
		w.Base = request.Existing.Base
		return nil
	}
	return r.In(ctx, request.Places.Scratch, func(s *jjrepo.Shadow) error {
		w.Base, err = s.Start(ctx, "")
		return err
	})
}

// isJJ says whether jj alone has the repository of w.
func isJJ(w forage.Workspace) bool {
	return w.Repository != nil && w.Repository.Kind == forage.RepositoryJJ
}
