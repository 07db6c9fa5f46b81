package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"forage/internal/workspace"
)

// share keeps contents from being collected while they come in or are needed.
func (s Store) share(ctx context.Context) (unlock func(), err error) {
	file, err := s.openLock()
	if err != nil {
		return nil, explain(err)
	}
	if err := workspace.Flock(ctx, file, unix.LOCK_SH); err != nil {
		file.Close()
		return nil, fmt.Errorf("locking the snapshots: %w", err)
	}
	return func() { file.Close() }, nil
}

// alone is for Collect; ok is false while anybody uses the contents.
func (s Store) alone() (unlock func(), ok bool, err error) {
	file, err := s.openLock()
	if err != nil {
		return nil, false, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
			err = nil
		}
		return nil, false, err
	}
	return func() { file.Close() }, true, nil
}

// openLock makes the store's folders too.
func (s Store) openLock() (*os.File, error) {
	for _, dir := range []string{"objects", "tmp", "sandboxes"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, dir), 0o700); err != nil {
			return nil, fmt.Errorf("making the folder of snapshots: %w", err)
		}
	}
	return os.OpenFile(filepath.Join(s.Dir, "lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
}
