package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/deadline"
	"forage/internal/hostexec"
	"forage/internal/unixsock"
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

// Lock is the proof that a supervisor lives: an exclusive lock of an open file
// description (fcntl(2), F_OFD_SETLK) in the sandbox's run-time folder, which the
// kernel drops with the last process that has it. Looking whether it is held does not take it.
type Lock struct {
	file  *os.File
	dir   string
	letGo func()
}

func newLock(file *os.File, dir string) *Lock { return &Lock{file, dir, hostexec.Hold(file)} }

func (l *Lock) close() error {
	l.letGo()
	return l.file.Close()
}

// Acquire makes the run-time folder dir and takes its lock. It returns
// ErrRefused when another supervisor holds it.
func Acquire(dir string) (*Lock, error) {
	for range acquireTries {
		lock, err := acquire(dir)
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrExist): // the folder was given up, or made, in between
		case err != nil:
			return nil, err
		case sameFile(lock.file):
			return lock, nil
		default: // it was taken away before it was locked: it excludes no process
			lock.close()
		}
	}
	return nil, fmt.Errorf("locking %s: another process keeps removing it", dir)
}

// acquireTries is far more often than others can give up a folder meanwhile.
const acquireTries = 1000

// sameFile says whether an open file is still at its path.
func sameFile(file *os.File) bool {
	held, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(file.Name())
	return err == nil && os.SameFile(held, there)
}

func acquire(dir string) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the run-time folder: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the run-time folder: %w", err)
	}
	err = setLock(file, unix.F_OFD_SETLK, unix.F_WRLCK)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		if holder, heldErr := lockHeld(file); heldErr != nil || holder == unix.F_WRLCK {
			err = errors.Join(heldErr, forage.Errorf(forage.ErrRefused, "the sandbox is already running"))
		} else { // a process that waited for the last supervisor's end holds it for a moment
			ctx, cancel := deadline.Within(context.Background(), deadline.End, "a process that waited for the sandbox's end")
			defer cancel()
			err = deadline.Do(ctx, func() error { return setLock(file, unix.F_OFD_SETLKW, unix.F_WRLCK) })
		}
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("locking %s: %w", file.Name(), err)
	}
	return newLock(file, dir), nil
}

// inherited is the lock that the process which started this one took for it, as its descriptor fd.
func inherited(fd uintptr) (*Lock, error) {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, fmt.Errorf("taking over the lock: %w", err)
	}
	return newLock(os.NewFile(fd, path), filepath.Dir(path)), nil
}

// Release removes what is in the run-time folder, the lock last, and the folder: with the lock
// free, nothing is left. Once the lock's name is gone, another process may make a new lock there.
// The folder is then left to that process, as is one that was another's already.
func (l *Lock) Release() error {
	if l.lost() {
		return l.close()
	}
	entries, err := os.ReadDir(l.dir)
	if errors.Is(err, os.ErrNotExist) { // a cleaner's
		return l.close()
	}
	errs := []error{err}
	for _, entry := range entries {
		if entry.Name() != lockName {
			errs = append(errs, os.RemoveAll(filepath.Join(l.dir, entry.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return errors.Join(err, l.close())
	}
	err = os.Remove(l.file.Name())
	if err == nil {
		err = os.Remove(l.dir)
	}
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, os.ErrNotExist) { // another's by now, or a cleaner's
		err = nil
	}
	return errors.Join(err, l.close())
}

// lost says whether the lock's file is no longer at its path: its holder can't be found any more,
// and excludes no process.
func (l *Lock) lost() bool { return !sameFile(l.file) }

// Alive says whether a supervisor holds the run-time folder dir.
func Alive(dir string) bool {
	file, err := openLock(dir)
	if err != nil {
		return false
	}
	defer file.Close()
	holder, err := lockHeld(file)
	return err == nil && holder == unix.F_WRLCK
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
	return setLock(file, unix.F_OFD_SETLKW, unix.F_RDLCK)
}

// Kill ends the supervisor that holds the run-time folder dir: the process that listens on its
// control socket. Its sandbox ends with it.
func Kill(dir string) error {
	conn, err := unixsock.Dial(context.Background(), filepath.Join(dir, controlName))
	if err != nil {
		return fmt.Errorf("finding the supervisor: %w", err)
	}
	defer conn.Close()
	peer, err := unixsock.Peer(conn)
	if err != nil {
		return fmt.Errorf("finding the supervisor: %w", err)
	}
	// While the lock is held it is still this process: no other can listen there.
	if err := deadline.Kill(int(peer.Pid), func() (bool, error) { return Alive(dir), nil }); err != nil {
		return fmt.Errorf("ending the supervisor: %w", err)
	}
	return nil
}

func openLock(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, lockName), os.O_RDONLY|unix.O_NOFOLLOW, 0)
}

// setLock takes a lock of that kind on the whole of file.
func setLock(file *os.File, command int, kind int16) error {
	for {
		err := unix.FcntlFlock(file.Fd(), command, &unix.Flock_t{Type: kind})
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// lockHeld is the kind of lock on file that keeps others from writing:
// F_WRLCK, F_RDLCK, or F_UNLCK for none.
func lockHeld(file *os.File) (int16, error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	err := unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, &lock)
	return lock.Type, err
}
