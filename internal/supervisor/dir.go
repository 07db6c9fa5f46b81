package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"forage"
)

// Names in a sandbox's run-time folder.
const (
	lockName    = "supervisor.lock"
	controlName = "control.sock"
	sshName     = "ssh.sock"
)

// SSHSocket is the path of the unix socket on which the guest of the sandbox
// with the run-time folder dir serves SSH.
func SSHSocket(dir string) string { return filepath.Join(dir, sshName) }

// Lock is the proof that a supervisor lives: an exclusive flock(2) on a file
// of the sandbox's run-time folder, which the kernel drops with the process.
type Lock struct {
	file *os.File
	dir  string
}

// Acquire makes the run-time folder dir and takes its lock. It returns
// ErrRefused when another supervisor holds it.
func Acquire(dir string) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the run-time folder: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the run-time folder: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, forage.Errorf(forage.ErrRefused, "the sandbox is already running")
		}
		return nil, fmt.Errorf("locking %s: %w", file.Name(), err)
	}
	return &Lock{file: file, dir: dir}, nil
}

// Release removes the run-time folder and gives up the lock, in this order:
// whoever sees the lock free finds nothing left.
func (l *Lock) Release() error {
	err := os.RemoveAll(l.dir)
	return errors.Join(err, l.file.Close())
}

// Alive says whether a supervisor holds the run-time folder dir.
func Alive(dir string) bool {
	file, err := openLock(dir)
	if err != nil {
		return false
	}
	defer file.Close()
	err = unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	return errors.Is(err, unix.EWOULDBLOCK)
}

// WaitGone blocks until no supervisor holds the run-time folder dir.
func WaitGone(dir string) error {
	file, err := openLock(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_SH)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func openLock(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, lockName), os.O_RDONLY|unix.O_NOFOLLOW, 0)
}
