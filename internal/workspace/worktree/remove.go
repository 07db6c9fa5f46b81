package worktree

import (
	"context"
	"errors"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// Remove takes away w, whose repository on the host has a worktree made by Make, as how says.
func Remove(ctx context.Context, p workspace.Provider, w forage.Workspace, how workspace.Removal, places workspace.Places) ([]workspace.Recovery, error) {
	r, gone := gitrepo.Moved(w)
	if how == workspace.RemoveUnused {
		if gone != nil {
			return nil, gitrepo.RemovePrivate(*w.Repository)
		}
		return nil, Unused(ctx, r, w, places.Scratch)
	}
	kept, branch, err := gitrepo.BeforeRemoval(ctx, p, w, how, places)
	if err != nil {
		return kept, err
	}
	if gone == nil {
		err = unmake(ctx, r, w, branch, places.Scratch)
	}
	return kept, errors.Join(err, gitrepo.RemovePrivate(*w.Repository))
}
