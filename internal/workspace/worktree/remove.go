package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// Remove takes away the worktree, its branch and the private metadata.
func (p Provider) Remove(ctx context.Context, w forage.Workspace, how workspace.Removal) ([]workspace.Recovery, error) {
	r, gone := gitrepo.Moved(w)
	if how == workspace.RemoveUnused {
		if gone != nil {
			return nil, gitrepo.RemovePrivate(*w.Repository)
		}
		return nil, removeUnused(ctx, r, w, p.Places.Scratch)
	}
	if gone == nil && Interrupted(w) { // in being made, or, since nothing was to be lost any more, in being removed
		return nil, undo(ctx, r, w, p.Places.Scratch)
	}
	if Gone(w) {
		return nil, gitrepo.RemovePrivate(*w.Repository)
	}
	kept, branch, err := gitrepo.BeforeRemoval(ctx, p, w, how, p.Places)
	if err != nil {
		return kept, err
	}
	if gone == nil {
		if err := note(w, mark{Path: w.Path, Branch: w.Branch, Base: branch}); err != nil {
			return kept, err
		}
		err = unmake(ctx, r, w, branch, p.Places.Scratch)
	}
	return kept, errors.Join(err, gitrepo.RemovePrivate(*w.Repository))
}

// Ending says whether nothing of w is to be lost: it is in being made, or in being removed, or it was.
func Ending(w forage.Workspace) bool { return Interrupted(w) || Gone(w) }

// Gone says whether neither the working folder nor the private metadata of w is there any more: it was removed.
func Gone(w forage.Workspace) bool {
	for _, dir := range [...]string{w.Path, w.Repository.Dir} {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}
