package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"forage"
)

// lockPause is how long to wait before asking for a lock again: flock(2) can't be waited for and given up.
const lockPause = 10 * time.Millisecond

// Lock waits until nobody else has the lock that the file stands for, which is made and stays. The kernel gives it up when the
// process ends.
func Lock(ctx context.Context, file string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	held, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := Flock(ctx, held, unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", file, err), held.Close())
	}
	return func() { _ = held.Close() }, nil
}

// lockPatience is how long a lock is waited for. What is done under one takes moments or, of the greatest repositories, minutes; who
// was stopped meanwhile (Ctrl-Z) never lets go of it.
const lockPatience = 10 * time.Minute

// Flock waits for a lock of flock(2) on an open file: how is unix.LOCK_EX or unix.LOCK_SH. forage.ErrRefused: somebody never lets
// go of it.
func Flock(ctx context.Context, file *os.File, how int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lockPatience, forage.WithHint(
		forage.Errorf(forage.ErrRefused, "another process has not let go of %s within %v", file.Name(), lockPatience),
		"`fuser -v "+file.Name()+"` shows who has it: wait for its end, or end it, and do this again"))
	defer cancel()
	for {
		err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lockPause):
		}
	}
}
