package login

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"forage/internal/deadline"
	"forage/internal/hostile"

	"golang.org/x/sys/unix"
)

const (
	// lockStale is when a lock folder has no owner any more, and lockTouch how often its owner says
	// that it does. Both are Claude Code's.
	lockStale = 10 * time.Second
	lockTouch = 3 * time.Second
	// lockPoll is how often a lock that is taken is looked at again.
	lockPoll = 50 * time.Millisecond
)

// hold keeps everybody else from renewing the login in a file until release is called:
// other sandboxes by flock(2) on the file's folder, and the agent by the folders that it
// makes to lock, as the npm package proper-lockfile does: who makes the folder has the
// lock, and touches it as long as it lives. The first has to be had; the others
// are left out where they can't be made, as the agent does. Codex has no lock.
func hold(ctx context.Context, file string, folders []string) (release func(), err error) {
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return nil, hostile.Bare(err)
	}
	if err := deadline.Flock(ctx, dir, unix.LOCK_EX); err != nil {
		dir.Close()
		return nil, err
	}
	held := []string{}
	stop := make(chan struct{})
	release = func() {
		close(stop)
		for _, path := range held {
			_ = os.Remove(path) // gone already: another process took it for stale
		}
		dir.Close()
	}
	for i, path := range folders {
		err := poll(ctx, func() (bool, error) {
			// Makes a lock folder, in place of one that its owner has left.
			err := os.Mkdir(path, 0o700)
			if !errors.Is(err, fs.ErrExist) {
				return err == nil, hostile.Bare(err)
			}
			info, err := os.Lstat(path)
			if err == nil && time.Since(info.ModTime()) > lockStale {
				_ = unix.Rmdir(path) // if it can't be removed, it is not ours to take
			}
			return false, nil
		})
		if err == nil {
			held = append(held, path)
		} else if i == 0 || ctx.Err() != nil {
			release()
			return nil, err
		}
	}
	go touch(held, stop)
	return release, nil
}

// touch keeps lock folders from looking stale.
func touch(paths []string, stop <-chan struct{}) {
	tick := time.NewTicker(lockTouch)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			for _, path := range paths {
				_ = os.Chtimes(path, now, now) // removed: then it is no longer ours
			}
		}
	}
}

// poll tries until it is done, fails or ctx ends.
func poll(ctx context.Context, try func() (bool, error)) error {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		done, err := try()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("another process holds its lock: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}
