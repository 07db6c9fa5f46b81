package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"forage/internal/deadline"

	"golang.org/x/sys/unix"

	"forage"
)

// Resolved is path without links, as far as it exists.
func Resolved(path string) string {
	if path == "" {
		return ""
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(Resolved(parent), filepath.Base(path))
}

// Free refuses places that are taken.
func Free(paths ...string) error {
	for _, path := range paths {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return forage.WithHint(forage.Errorf(forage.ErrRefused, "%s is there already", path),
				"choose another name for the sandbox; `forage-ctl gc` finds what a sandbox left behind")
		}
	}
	return nil
}

// MakeScratch makes a folder below scratch, which is made too, for as long as a call takes. It is
// named KIND-PID-RANDOM, so that what a killed process left can be told.
func MakeScratch(scratch, kind string) (dir string, err error) {
	if err = os.MkdirAll(scratch, 0o700); err == nil {
		dir, err = os.MkdirTemp(scratch, fmt.Sprintf("%s-%d-", kind, os.Getpid()))
	}
	if err != nil {
		return "", fmt.Errorf("making a folder to work in: %w", err)
	}
	return dir, nil
}

// scratchKept is how long a scratch folder stays when its name doesn't tell whether its process has
// ended. No call takes as long.
const scratchKept = 24 * time.Hour

// AbandonedScratch lists the folders below scratch whose processes have ended.
func AbandonedScratch(scratch string) ([]string, error) {
	entries, err := os.ReadDir(scratch)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var abandoned []string
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			continue // it is gone meanwhile
		}
		if Abandoned(entry.Name()) || time.Since(info.ModTime()) > scratchKept {
			abandoned = append(abandoned, filepath.Join(scratch, entry.Name()))
		}
	}
	return abandoned, err
}

// Abandoned says whether the process that a scratch folder is named after has ended.
func Abandoned(name string) bool {
	parts := strings.Split(name, "-")
	if len(parts) < 3 {
		return false
	}
	pid, err := strconv.Atoi(parts[len(parts)-2])
	return err == nil && pid > 0 && errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}

// Lock waits until nobody else has the lock that the file stands for, which is made and stays. The
// kernel gives it up when the process ends.
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

// Flock waits for a lock of flock(2) on an open file: how is unix.LOCK_EX or unix.LOCK_SH.
// forage.ErrRefused: another process, which may have been stopped (Ctrl-Z), never lets go of it.
func Flock(ctx context.Context, file *os.File, how int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, deadline.Progress, forage.WithHint(
		forage.Errorf(forage.ErrRefused, "another process has not let go of %s within %v", file.Name(), deadline.Progress),
		"`fuser -v "+file.Name()+"` shows who has it: wait for its end, or end it, and do this again"))
	defer cancel()
	return deadline.Flock(ctx, file, how)
}
