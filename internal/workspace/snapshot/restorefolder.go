package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path"
	"sync"

	"golang.org/x/sys/unix"
)

// folder makes dir, which it closes, what e says, and all below.
func (o *outlet) folder(dir *os.File, e *entry) {
	defer dir.Close()
	fd := int(dir.Fd())
	if err := o.open(dir); err != nil {
		o.fail(e.path, err)
		return
	}
	wanted := o.below[e.path]
	o.clear(dir, e.path, wanted)
	var files sync.WaitGroup
	for _, child := range wanted {
		if o.ctx.Err() != nil {
			break
		}
		name := path.Base(child.path)
		switch child.kind {
		case kindFolder:
			if next, err := o.makeFolder(fd, name, child.path); err != nil {
				o.fail(child.path, err)
			} else {
				o.folder(next, child)
			}
		case kindLink:
			o.fail(child.path, o.link(fd, name, child))
		case kindFile:
			o.slots <- struct{}{}
			files.Go(func() {
				o.fail(child.path, o.file(fd, name, child))
				<-o.slots
			})
		}
	}
	files.Wait()
	if o.ctx.Err() == nil {
		o.fail(e.path, o.finish(fd, e))
	}
}

// open makes sure that its owner may change a folder.
func (o *outlet) open(dir *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&0o700 == 0o700 || os.Geteuid() == 0 {
		return nil
	}
	return unix.Fchmod(int(dir.Fd()), st.Mode&0o7777|0o700)
}

// finish gives a folder its mode, attributes and time, when nothing in it changes any more.
func (o *outlet) finish(fd int, e *entry) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	own(fd, &st, e)
	if x := readXattrs(fd); !sameXattrs(x, e.xattrs) {
		writeXattrs(fd, e.xattrs, x)
	}
	if st.Mode&permissions != e.mode {
		if err := unix.Fchmod(fd, st.Mode&^permissions&0o7777|e.mode); err != nil {
			return err
		}
	}
	if (stamp{st.Mtim.Sec, st.Mtim.Nsec}) == e.mtime {
		return nil
	}
	// By its own descriptor: in a folder that may not be entered, "." is not to be had.
	return unix.UtimesNanoAt(unix.AT_FDCWD, procPath(fd), e.mtime.times(), 0)
}

// procPath is a path to an open file, wherever it is now: proc_pid_fd(5).
func procPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// times leave the time of the last access alone.
func (t stamp) times() []unix.Timespec {
	return []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: t.sec, Nsec: t.nsec}}
}

// own gives a file back to its owner, which root alone can.
func own(fd int, st *unix.Stat_t, e *entry) {
	if os.Geteuid() == 0 && (st.Uid != e.uid || st.Gid != e.gid) {
		unix.Fchown(fd, int(e.uid), int(e.gid)) // in a user namespace not all can be: they stay the caller's
	}
}

// makeFolder opens the folder called name, and makes it if something else or nothing is there.
func (o *outlet) makeFolder(dir int, name, at string) (*os.File, error) {
	for try := 1; ; try++ {
		child, err := openFolder(dir, name)
		switch {
		case err == nil || try == 3:
			return child, err
		case errors.Is(err, unix.EACCES):
			err = unlock(dir, name)
		case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
			err = o.makeWay(dir, name, at)
		case errors.Is(err, unix.ENOENT):
			err = unix.Mkdirat(dir, name, 0o700)
		}
		if err != nil && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENOENT) {
			return nil, err
		}
	}
}

// unlock lets its owner into a folder, without following a link in its place.
func unlock(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return os.Chmod(procPath(fd), 0o700)
}

func (o *outlet) link(dir int, name string, e *entry) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		buffer := make([]byte, unix.PathMax)
		if n, err := unix.Readlinkat(dir, name, buffer); err == nil && string(buffer[:n]) == e.target {
			return timeAt(dir, name, &st, e)
		}
	}
	if err := o.inTheWay(dir, name, e.path); err != nil {
		return err
	}
	temporary := temporaryName()
	if err := unix.Symlinkat(e.target, dir, temporary); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		unix.Fchownat(dir, temporary, int(e.uid), int(e.gid), unix.AT_SYMLINK_NOFOLLOW)
	}
	if err := unix.UtimesNanoAt(dir, temporary, e.mtime.times(), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return errors.Join(err, unix.Unlinkat(dir, temporary, 0))
	}
	return o.replace(dir, temporary, name, e.path)
}

// timeAt gives what is called name its time, unless it has it.
func timeAt(dir int, name string, st *unix.Stat_t, e *entry) error {
	if (stamp{st.Mtim.Sec, st.Mtim.Nsec}) == e.mtime {
		return nil
	}
	return unix.UtimesNanoAt(dir, name, e.mtime.times(), unix.AT_SYMLINK_NOFOLLOW)
}
