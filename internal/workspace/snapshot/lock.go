package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how long to wait before asking for a lock again: flock(2) can't be waited for and given up.
const lockPoll = 20 * time.Millisecond

// share keeps contents from being collected while they come in or are needed.
func (s Store) share(ctx context.Context) (unlock func(), err error) {
	file, err := s.openLock()
	if err != nil {
		return nil, explain(err)
	}
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { file.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			file.Close()
			return nil, fmt.Errorf("locking the snapshots: %w", err)
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
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
