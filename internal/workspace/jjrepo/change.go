package jjrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"forage/internal/hostexec"
	"forage/internal/workspace"
)

// Change runs a jj that changes the repository, and no working copy.
func (s *Shadow) Change(ctx context.Context, args ...string) error {
	return s.change(ctx, append([]string{"--ignore-working-copy"}, args...)...)
}

// GitImport has jj take over what was done to git's branches.
func (s *Shadow) GitImport(ctx context.Context) error { return s.Change(ctx, "git", "import") }

// change runs a jj that is not killed with us: for a moment it has locks on git's refs that no other program would remove.
// jj's own lock of the repository is held for as long as it runs: in a shadow it takes another one.
func (s *Shadow) change(ctx context.Context, args ...string) error {
	held, err := s.Repository.lock(ctx, os.O_CREATE)
	if err != nil {
		return err
	}
	defer unlock(held)
	defer hostexec.Hold(held)()
	_, err = s.run(ctx, s.Dir, hostexec.Command{Argv: args, Outlives: true})
	return err
}

// settled waits for a change of ours, or of the user's jj, that is going on.
func (r *Repository) settled(ctx context.Context) error {
	held, err := r.lock(ctx, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		return nil // where we may not write, no change is ours
	}
	if err == nil {
		unlock(held)
	}
	return err
}

// lock takes jj's lock for git's refs: flock(2) on a file that its holder removes.
func (r *Repository) lock(ctx context.Context, flags int) (*os.File, error) {
	path := filepath.Join(r.Dir, "git_import_export.lock")
	for {
		f, err := os.OpenFile(path, flags|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("locking: %w", err)
		}
		var stat unix.Stat_t
		if err := errors.Join(workspace.Flock(ctx, f, unix.LOCK_EX), unix.Fstat(int(f.Fd()), &stat)); err != nil {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
		}
		if stat.Nlink > 0 {
			return f, nil
		}
		_ = f.Close() // the holder before us removed it
	}
}

// unlock does what jj does.
func unlock(f *os.File) { _, _ = os.Remove(f.Name()), f.Close() }
