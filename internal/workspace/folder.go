package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"forage"
)

// OpenFolder opens a folder of a workspace, whose path has had its links resolved: a link that has come to be on the way since is
// not followed. Whoever works in a folder of another user's would otherwise work wherever that user has it lead.
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

// Permit gives the owner of a folder these permissions, if they were taken away inside. A link at path is refused.
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
