package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// creatingFile, in the private folder where the agent can't write, is there from the first moment
// of a creation to its last. It has the commit that the branch starts from.
const creatingFile = "creating"

// Build makes what Begin has noted, and notes that it is made. When it fails, what it made is left.
func Build(ctx context.Context, r *gitrepo.Repository, w forage.Workspace, scratch string) (err error) {
	s, err := r.Shadow(scratch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.AddWorktree(ctx, describe(w)); err != nil {
		return err
	}
	index := r.WorktreeIndex(describe(w).Name)
	if err := gitrepo.CreatePrivate(ctx, r, gitrepo.Private{
		Repository: *w.Repository, Branch: w.Branch, Base: w.Base, Index: index, Remotes: true, Scratch: scratch,
	}); err != nil {
		return err
	}
	if err := s.HoldGitlinks(ctx, index); err != nil {
		return err
	}
	return os.Remove(filepath.Join(w.Repository.Dir, creatingFile))
}

// describe is the worktree as gitrepo knows it. Its name in the repository is that of the branch,
// which is as unique.
func describe(w forage.Workspace) gitrepo.Worktree {
	return gitrepo.Worktree{
		Name: w.Branch, Path: w.Path, Branch: w.Branch, Base: w.Base, Empty: w.Empty,
		Lock: "a sandbox works on it; `forage-ctl down` removes it",
	}
}

// Begin notes that w is about to be made, and may be deleted from then on. It comes before Build.
func Begin(w forage.Workspace) error {
	err := os.MkdirAll(w.Repository.Dir, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(w.Repository.Dir, creatingFile), []byte(w.Base), 0o600)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("making the workspace: %w", err), gitrepo.RemovePrivate(*w.Repository))
	}
	return nil
}

// begun is the commit that a creation of w which is not finished starts from.
func begun(w forage.Workspace) (base string, _ bool) {
	text, err := os.ReadFile(filepath.Join(w.Repository.Dir, creatingFile))
	return string(text), err == nil
}

// Interrupted says whether a creation of w was begun and not finished.
func Interrupted(w forage.Workspace) bool {
	_, ok := begun(w)
	return ok
}

// removeUnused takes away what Create made, finished or not, before anything was done with it. A
// worktree that the repository knows to be in our folder was made by us, even if a crash took all
// other signs of it.
func removeUnused(ctx context.Context, r *gitrepo.Repository, w forage.Workspace, scratch string) error {
	_, ours := r.WorktreeAt(w.Branch, w.Path)
	if _, err := os.Lstat(w.Repository.Dir); errors.Is(err, fs.ErrNotExist) && !ours {
		return nil
	}
	base, interrupted := begun(w)
	if !interrupted {
		base = w.Base
	}
	if err := unmake(ctx, r, w, base, scratch); err != nil {
		return err
	}
	return gitrepo.RemovePrivate(*w.Repository)
}

// unmake takes away the worktree, the pin, and the branch if it is still at the commit at.
func unmake(ctx context.Context, r *gitrepo.Repository, w forage.Workspace, at, scratch string) (err error) {
	if err := r.RemoveWorktree(describe(w)); err != nil {
		return err
	}
	s, err := r.Shadow(scratch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	drop := map[string]string{gitrepo.PinRef(w.Branch): ""}
	if at != "" {
		drop[gitrepo.TipRef(w)] = gitrepo.LastImported(w, at)
	}
	return s.DropRefs(ctx, drop)
}

// free refuses a branch, a worktree or folders that are taken already, unless an interrupted
// creation of w left them.
func free(ctx context.Context, r *gitrepo.Repository, w forage.Workspace, scratch string) error {
	if Interrupted(w) {
		return nil
	}
	refs, err := r.Refs(ctx, scratch)
	if err != nil {
		return err
	}
	if err := refs.FreeBranch(w.Branch); err != nil {
		return err
	}
	if there, _ := r.WorktreeAt(w.Branch, w.Path); there {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "%s has a worktree named %s already", r.Common, w.Branch),
			"see `git worktree list`; if its folder is gone: git worktree unlock, then git worktree prune")
	}
	return workspace.Free(w.Path, w.Repository.Dir)
}

// Check says what has become of a repository or a worktree that isn't as it was made.
func Check(w forage.Workspace) error {
	r, err := gitrepo.Moved(w)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(w.Path); errors.Is(err, fs.ErrNotExist) {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "the worktree's folder %s is gone", w.Path),
			"commits are still in the sandbox; `forage-ctl down --force` keeps them below refs/forage/recovery/ and removes the rest")
	}
	if _, ours := r.WorktreeAt(w.Branch, w.Path); !ours {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "%s no longer knows the worktree %s", w.Source, w.Path),
			"if it was moved, `git worktree move` it back; if it was removed, `forage-ctl down --force` keeps what is in it below refs/forage/recovery/")
	}
	return nil
}
