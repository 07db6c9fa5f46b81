package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/deadline"
	"forage/internal/hostexec"
)

// storeLock stands for the store-wide lock, on the folder of the others. It is never removed.
const storeLock = ""

const lockSuffix = ".lock"

// Lock waits until no other process (and nothing else in this one) holds the
// sandbox called name, and holds it until the returned function is called. It
// is held over a whole transition: up, start, stop, reset, down. The kernel gives
// it up when the process ends. A sandbox need not exist to be locked.
func (s *Store) Lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := forage.CheckName(name); err != nil {
		return nil, err
	}
	return s.lock(ctx, name)
}

// TryLock is Lock that does not wait: ok is false when another process holds the sandbox.
func (s *Store) TryLock(name string) (unlock func(), ok bool, err error) {
	if err := forage.CheckName(name); err != nil {
		return nil, false, err
	}
	unlock, err = s.take(name, func(file *os.File) error { return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, false, nil
	}
	return unlock, err == nil, err
}

func (s *Store) lock(ctx context.Context, name string) (func(), error) {
	return s.take(name, func(file *os.File) error { return deadline.Flock(ctx, file, unix.LOCK_EX) })
}

func (s *Store) take(name string, flock func(*os.File) error) (unlock func(), err error) {
	for {
		file, err := s.openLock(name)
		if err != nil {
			return nil, err
		}
		switch err := flock(file); {
		case err == nil && current(file):
			return releaser(file), nil
		case err == nil, errors.Is(err, unix.EINTR): // it was removed while we waited
			file.Close()
		default:
			file.Close()
			return nil, fmt.Errorf("locking %s: %w", name, err)
		}
	}
}

func (s *Store) openLock(name string) (*os.File, error) {
	path := filepath.Join(s.dir, "locks", name+lockSuffix)
	flags := os.O_RDWR | os.O_CREATE | unix.O_NOFOLLOW
	if name == storeLock {
		path, flags = filepath.Dir(path), unix.O_DIRECTORY|unix.O_NOFOLLOW
	}
	file, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		// Makes the folders of the store.
		for _, dir := range []string{s.dir, s.sandboxes(), filepath.Join(s.dir, "workspaces"), filepath.Join(s.dir, "locks")} {
			if err := makePrivate(dir); err != nil {
				return nil, fmt.Errorf("preparing the state folder: %w", explain(err))
			}
		}

		file, err = os.OpenFile(path, flags, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("locking: %w", explain(err))
	}
	return file, nil
}

// current says whether file is still the one at its path: a lock on a file that was removed
// meanwhile excludes no process.
func current(file *os.File) bool {
	held, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(file.Name())
	return err == nil && os.SameFile(held, there)
}

// releaser removes the lock file and gives up the lock, in this order: the next in line finds it
// gone and makes a new one. Nothing piles up.
func releaser(file *os.File) func() {
	letGo := hostexec.Hold(file)
	return sync.OnceFunc(func() {
		letGo()
		if filepath.Ext(file.Name()) == lockSuffix {
			os.Remove(file.Name())
		}
		file.Close()
	})
}
