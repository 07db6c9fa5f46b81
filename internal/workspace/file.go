package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/hostile"
)

// ReadFile is hostile.ReadFile with an error that names the file: what isn't a file, or has more than limit bytes,
// is forage.ErrUnsupported. With unix.O_NOFOLLOW as flags so is a link.
func ReadFile(path string, flags int, limit int64) ([]byte, error) {
	text, _, err := hostile.ReadFile(path, flags, limit)
	errno, named := errors.AsType[unix.Errno](err)
	switch {
	case err == nil:
		return text, nil
	case named && errno != unix.ELOOP && errno != unix.ENXIO:
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return nil, forage.Errorf(forage.ErrUnsupported, "%s is not a file of at most %d bytes", path, limit)
}

// CopyFile makes to a copy of a file that ReadFile would read, with its time.
func CopyFile(from, to string, limit int64) error {
	source, err := os.OpenFile(from, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	var n int64
	if info.Mode().IsRegular() {
		n, err = target.ReadFrom(io.LimitReader(source, limit+1)) // the kernel shares the blocks where the file system can
	}
	if err == nil && (!info.Mode().IsRegular() || n > limit) {
		err = forage.Errorf(forage.ErrUnsupported, "%s is not a file of at most %d bytes", from, limit)
	}
	return errors.Join(err, target.Close(), os.Chtimes(to, info.ModTime(), info.ModTime()))
}

// racyMargin is for how long a file has to have been left alone for its times to tell it from what
// is written to it next: they are as coarse as the clock tick, and on some file systems as seconds.
const racyMargin = 2 * time.Second

// Racy says whether what is looked at now was changed so short a time ago that another change may
// leave it the same times.
func Racy(changed unix.Timespec, now time.Time) bool {
	return !time.Unix(changed.Unix()).Before(now.Add(-racyMargin))
}

// Moment is a time by the clock of a file system.
type Moment struct {
	device uint64
	at     unix.Timespec
}

// Now is a moment of the file system that a folder of ours is on. It changes the folder's change time.
func Now(folder string) (Moment, error) {
	var st unix.Stat_t
	err := unix.Stat(folder, &st)
	if err == nil {
		err = unix.Chmod(folder, st.Mode&0o7777)
	}
	if err == nil {
		err = unix.Stat(folder, &st)
	}
	return Moment{uint64(st.Dev), st.Ctim}, err
}

// maxUntouched bounds how many files Untouched looks at.
const maxUntouched = 200_000

// Untouched says whether nothing in these folders was changed since a moment before. The change
// time tells: no program can set it. What can't be looked at was touched; an absent folder was not.
func (m Moment) Untouched(folders ...string) bool {
	left := maxUntouched
	for _, folder := range folders {
		err := hostile.Walk(folder, func(_ string, st *unix.Stat_t) error {
			before := st.Ctim.Sec < m.at.Sec || st.Ctim.Sec == m.at.Sec && st.Ctim.Nsec < m.at.Nsec
			if left--; left < 0 || !before || uint64(st.Dev) != m.device {
				return errTouched
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

var errTouched = errors.New("changed since")

// OpenFolder opens a folder of a workspace, whose path has had its links resolved: a link that has
// come to be on the way since is not followed. Whoever works in a folder of another user's would
// otherwise work wherever that user has it lead.
func OpenFolder(path string) (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NONBLOCK, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if errors.Is(err, unix.ELOOP) {
		return nil, forage.WithHint(
			forage.Errorf(forage.ErrRefused, "opening %s: a link has come to be on the way there", path), "move the folder back to where it was")
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Permit gives the owner of a folder these permissions, if they were taken away inside. A link at
// path is refused.
func Permit(path string, bits uint32) error {
	path = filepath.Join(Resolved(filepath.Dir(path)), filepath.Base(path))
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&bits != bits {
		err = unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), st.Mode&0o7777|bits)
	}
	if err != nil {
		return &os.PathError{Op: "chmod", Path: path, Err: err}
	}
	return nil
}

// MakeFolder makes a folder that is not there, through no link.
func MakeFolder(path string) error {
	parent, err := OpenFolder(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := unix.Mkdirat(int(parent.Fd()), filepath.Base(path), 0o700); err != nil {
		return &os.PathError{Op: "mkdir", Path: path, Err: err}
	}
	return nil
}
