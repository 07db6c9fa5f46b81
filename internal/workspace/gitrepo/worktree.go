package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"forage"
	"forage/internal/hostile"
	"forage/internal/workspace"
)

// Worktree is a linked worktree on the host: git-worktree(1). It is whole: the user's own git works
// in it.
type Worktree struct {
	Name   string // of its folder below worktrees/ in the repository
	Path   string // its working folder
	Branch string // that it is on
	Base   string // its commit, in hex; "" is a branch without a commit
	Lock   string // why `git worktree remove` and `prune` must leave it alone
	Empty  bool   // its files come from elsewhere: none are checked out
}

// admin is the folder in the repository that stands for the worktree.
func (r *Repository) admin(name string) string { return filepath.Join(r.Common, "worktrees", name) }

// AddWorktree makes the branch and the worktree and checks its files out, as `git worktree add`
// would but without hooks and filters. It leaves what it made when it fails: see RemoveWorktree.
func (s *Shadow) AddWorktree(ctx context.Context, t Worktree) error {
	if err := s.makeWorktree(t); err != nil {
		return fmt.Errorf("making the worktree: %w", err)
	}
	if t.Base == "" {
		return nil
	}
	err := s.createBranch(ctx, t)
	if err != nil {
		return err
	}
	index := filepath.Join(s.Repository.admin(t.Name), "index")
	how := "-u"
	if t.Empty {
		how = "-i"
	}
	if _, err := s.Git(ctx, Call{Args: []string{"read-tree", "-m", how, t.Base}, WorkTree: t.Path, Index: index}); err != nil {
		return fmt.Errorf("checking out %s: %w", t.Base, err)
	}
	return nil
}

// unfinished is the folder that becomes admin, or was it. git gives no worktree a name that ends
// so, and lists none without gitdir.
func (r *Repository) unfinished(name string) string { return r.admin(name) + ".lock" }

// makeWorktree makes the folders and the files of the worktree. The repository has it from one
// moment to the next, so that what is left, wherever this ends, can be told from anybody else's.
func (s *Shadow) makeWorktree(t Worktree) error {
	admin, unfinished := s.Repository.admin(t.Name), s.Repository.unfinished(t.Name)
	err := fs.ErrNotExist
	for range 100 { // a removal of the last worktree takes their folder away at any moment
		if err = os.MkdirAll(filepath.Dir(admin), 0o777); err == nil || errors.Is(err, fs.ErrExist) {
			err = os.Mkdir(unfinished, 0o777)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(t.Path), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(t.Path, 0o700); err != nil {
		return err
	}
	pointer := filepath.Join(t.Path, ".git")
	if err := errors.Join(
		os.WriteFile(pointer, []byte("gitdir: "+admin+"\n"), 0o666),
		os.WriteFile(filepath.Join(unfinished, "locked"), []byte(t.Lock+"\n"), 0o666), // first: git prunes what has neither it nor gitdir
		os.WriteFile(filepath.Join(unfinished, "commondir"), []byte("../..\n"), 0o666),
		os.WriteFile(filepath.Join(unfinished, "HEAD"), []byte("ref: refs/heads/"+t.Branch+"\n"), 0o666),
		s.sparseInto(unfinished),
		os.WriteFile(filepath.Join(unfinished, "gitdir"), []byte(pointer+"\n"), 0o666)); err != nil {
		return err
	}
	return os.Rename(unfinished, admin) // which replaces no folder
}

// createBranch makes the branch, which must not be there.
func (s *Shadow) createBranch(ctx context.Context, t Worktree) error {
	_, err := s.Line(ctx, "update-ref", "-m", "branch: Created by forage", "refs/heads/"+t.Branch, t.Base, emptyID(s.Repository.ObjectFormat))
	if err != nil && ctx.Err() != nil { // not for what the branch is
		return fmt.Errorf("making the branch %s: %w", t.Branch, err)
	}
	if err != nil {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "making the branch %s: %w", t.Branch, err),
			"choose another name for the sandbox, look at the branch with `git branch --list "+t.Branch+"`, or wait for, or remove, a lock that is named here")
	}
	return nil
}

// sparseInto gives a worktree the sparse checkout of the folder it is made from, and this shadow
// too.
func (s *Shadow) sparseInto(admin string) error {
	r := s.Repository
	c, patterns, err := r.sparse()
	if err != nil || c.String() == "" {
		return err
	}
	if err := errors.Join(s.setSparse(c, patterns), writePatterns(admin, patterns)); err != nil {
		return err
	}
	if !r.flag("extensions.worktreeconfig") {
		return nil // it is in what all worktrees share
	}
	return os.WriteFile(filepath.Join(admin, "config.worktree"), []byte(c.String()), 0o666)
}

// Sparse has the shadow leave out of a working folder what the repository's own leaves out.
func (s *Shadow) Sparse() error {
	c, patterns, err := s.Repository.sparse()
	if errors.Is(err, fs.ErrNotExist) || err == nil && c.String() == "" {
		return nil
	}
	if err != nil {
		return err
	}
	return s.setSparse(c, patterns)
}

func (s *Shadow) setSparse(c configText, patterns []byte) error {
	return errors.Join(
		writePatterns(s.Dir, patterns),
		os.WriteFile(filepath.Join(s.Dir, "config"), []byte(s.Repository.shadowConfig()+c.String()), 0o600))
}

func writePatterns(gitDir string, patterns []byte) error {
	return errors.Join(
		os.MkdirAll(filepath.Join(gitDir, "info"), 0o777),
		os.WriteFile(filepath.Join(gitDir, "info/sparse-checkout"), patterns, 0o666))
}

// sparse are the settings and patterns of the working folder's sparse checkout; no settings: it is
// none.
func (r *Repository) sparse() (c configText, patterns []byte, err error) {
	if c = (configText{}); !r.flag("core.sparsecheckout") {
		return c, nil, nil
	}
	for _, key := range [...]string{"core.sparsecheckout", "core.sparsecheckoutcone", "index.sparse"} {
		if value := r.last(key); value != "" {
			c.add(key, value)
		}
	}
	patterns, err = workspace.ReadFile(filepath.Join(r.GitDir, "info/sparse-checkout"), 0, maxConfig)
	return c, patterns, err
}

// HoldGitlinks marks the submodules in an index of the host's worktree, so that no git of the
// user's enters their folders: what is in them was put there inside, and git runs what a
// repository's configuration names.
func (s *Shadow) HoldGitlinks(ctx context.Context, index string) error {
	return s.passGitlinks(ctx, s.Dir, index)
}

// WorktreeAt says whether the repository has a worktree of that name, and whether it is the one at
// path.
func (r *Repository) WorktreeAt(name, path string) (there, ours bool) {
	at, err := ReadPointer(filepath.Join(r.admin(name), "gitdir"), "")
	if err != nil {
		_, err = os.Lstat(r.admin(name))
		return err == nil, false
	}
	return true, at == filepath.Join(path, ".git")
}

// RemoveWorktree takes away the worktree: its folder, and what stands for it in the repository if
// that is really this one. What is not there is as good as removed.
func (r *Repository) RemoveWorktree(t Worktree) error {
	unfinished := r.unfinished(t.Name)
	err := os.RemoveAll(unfinished)
	if _, ours := r.WorktreeAt(t.Name, t.Path); ours && err == nil {
		err = errors.Join(os.Rename(r.admin(t.Name), unfinished), os.RemoveAll(unfinished))
	}
	_ = os.Remove(filepath.Join(r.Common, "worktrees")) // as git does, when it was the last
	return errors.Join(err, hostile.RemoveAll(t.Path))
}

// WorktreeIndex is the index file of the worktree of that name.
func (r *Repository) WorktreeIndex(name string) string { return filepath.Join(r.admin(name), "index") }
