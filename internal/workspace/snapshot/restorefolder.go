package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// place is a folder that is being restored. It gets its own attributes when all in it is done.
type place struct {
	dir   *os.File
	e     *entry
	above *place
	left  atomic.Int64 // files and folders in it that are not done, and going through it
}

// done says that one thing in p is.
func (o *outlet) done(p *place) {
	for ; p != nil && p.left.Add(-1) == 0; p = p.above {
		if o.ctx.Err() == nil {
			o.fail(p.e.path, o.finish(int(p.dir.Fd()), p.e))
		}
		p.dir.Close()
	}
}

// folder makes p, which it closes, what its entry says, and all below. In one that was made by it, nothing is in the way.
func (o *outlet) folder(p *place, made bool) {
	p.left.Add(1)
	defer o.done(p)
	if p.above != nil {
		p.above.left.Add(1)
	}
	fd := int(p.dir.Fd())
	wanted := o.below[p.e.path]
	if !made {
		if err := o.open(p.dir); err != nil {
			o.fail(p.e.path, err)
			return
		}
		o.clear(p.dir, p.e.path, wanted)
	}
	for _, child := range wanted {
		if o.ctx.Err() != nil {
			break
		}
		name := path.Base(child.path)
		switch child.kind {
		case kindFolder:
			if next, made, err := o.makeFolder(fd, name, child.path); err != nil {
				o.fail(child.path, err)
			} else {
				o.folder(&place{dir: next, e: child, above: p}, made)
			}
		case kindLink:
			o.fail(child.path, o.link(fd, name, child))
		case kindFile:
			p.left.Add(1)
			o.leaders[child.path].begin()
			o.jobs <- func(c *copier) {
				o.fail(child.path, o.file(c, fd, name, child))
				o.leaders[child.path].end()
				o.done(p)
			}
		}
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

// finish gives a folder its mode, attributes and time, when nothing in it changes any more. One that its own mode closes to its owner
// stays open until the end, where there may be links to what is in it.
func (o *outlet) finish(fd int, e *entry) error {
	const search = 0o100
	if e.mode&search == 0 && len(o.leaders) > 0 {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.late = append(o.late, e)
		return nil
	}
	return finish(fd, e)
}

// closeLate finishes the folders that finish left open, those below before those above.
func (o *outlet) closeLate() {
	for _, e := range o.late {
		at, err := o.reach(e.path)
		if err == nil {
			var dir *os.File
			if dir, err = openFolder(at, "."); err == nil {
				err = finish(int(dir.Fd()), e)
				dir.Close()
			}
			unix.Close(at)
		}
		o.fail(e.path, err)
	}
}

func finish(fd int, e *entry) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	var errs [3]error
	own(fd, &st, e)
	if x := readXattrs(fd); !sameXattrs(x, e.xattrs) {
		errs[0] = writeXattrs(fd, e.xattrs, x)
	}
	if st.Mode&permissions != e.mode {
		errs[1] = unix.Fchmod(fd, st.Mode&^permissions&0o7777|e.mode)
	}
	if (stamp{st.Mtim.Sec, st.Mtim.Nsec}) != e.mtime {
		errs[2] = e.mtime.set(fd)
	}
	return errors.Join(errs[:]...)
}

// set gives an open file its time of change: futimens(3).
func (t stamp) set(fd int) error {
	times := t.times()
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&times[0])), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
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
func (o *outlet) makeFolder(dir int, name, at string) (child *os.File, made bool, err error) {
	for try := 1; ; try++ {
		child, err := openFolder(dir, name)
		switch {
		case err == nil || try == 3:
			return child, made && err == nil, err
		case errors.Is(err, unix.EACCES):
			err = unlock(dir, name)
		case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
			err = o.makeWay(dir, name, at)
		case errors.Is(err, unix.ENOENT):
			err = unix.Mkdirat(dir, name, 0o700)
			made = err == nil
		}
		if err != nil && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENOENT) {
			return nil, false, err
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
