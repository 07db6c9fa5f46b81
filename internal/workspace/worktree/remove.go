package worktree

import (
	"context"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// Remove takes away the worktree, its branch and the private metadata.
func (p Provider) Remove(ctx context.Context, w forage.Workspace, how workspace.Removal) (kept []workspace.Recovery, err error) {
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
	removal, begun := gitrepo.ReadRemoval(*w.Repository)
	if !begun {
		var branch string
		if kept, branch, err = gitrepo.BeforeRemoval(ctx, p, w, how, p.Places); err != nil {
			return kept, err
		}
		removal.Branches = []string{branch}
		if err := gitrepo.BeginRemoval(*w.Repository, removal); err != nil {
			return kept, err
		}
	}
	if gone == nil {
		if err := unmake(ctx, r, w, removal.Branch(0), p.Places.Scratch); err != nil {
			return kept, err
		}
	}
	return kept, gitrepo.RemovePrivate(*w.Repository)
}

// Ending says whether nothing of w is to be lost: it is in being made, or in being removed, or it was.
func Ending(w forage.Workspace) bool { return Interrupted(w) || gitrepo.RemovalBegun(w) }
