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

// change runs a jj that is not killed with us, nor when we are asked to end: for a moment it has locks on git's refs that
// nobody would remove, and with which the user's own jj fails from then on. jj's own lock is held, as jj would hold it if the
// shadow's folder were the repository's: two that make refs at once wait for one another's for ever. It is held for
// as long as jj runs, so that whoever comes after us waits.
func (s *Shadow) change(ctx context.Context, args ...string) error {
	held, err := lockFile(ctx, s.Repository.lock(), os.O_CREATE)
	if err != nil {
		return err
	}
	defer unlockFile(held)
	defer hostexec.Hold(held)()
	_, err = s.run(ctx, s.Dir, hostexec.Command{Argv: args, Outlives: true})
	return err
}

// settled waits for a change of ours, or of the user's jj, that is going on.
func (r *Repository) settled(ctx context.Context) error {
	held, err := lockFile(ctx, r.lock(), 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		return nil // where we may not write, no change is ours
	}
	if err == nil {
		unlockFile(held)
	}
	return err
}

func (r *Repository) lock() string { return filepath.Join(r.Dir, "git_import_export.lock") }

// lock takes a lock as jj does: flock(2) on a file that its holder removes.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := lockFile(ctx, path, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	return func() { unlockFile(f) }, nil
}

// unlockFile does what jj does, which does with either order.
func unlockFile(f *os.File) { _, _ = os.Remove(f.Name()), f.Close() }

// lockFile is lock; the lock is held for as long as the file is open anywhere. Without O_CREATE in flags it is fs.ErrNotExist if there is none.
func lockFile(ctx context.Context, path string, flags int) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, flags|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("locking: %w", err)
		}
		var stat unix.Stat_t
		err = errors.Join(workspace.Flock(ctx, f, unix.LOCK_EX), unix.Fstat(int(f.Fd()), &stat))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
		}
		if stat.Nlink > 0 {
			return f, nil
		}
		_ = f.Close() // the holder before us removed it
	}
}
