package workspace

import (
	"errors"
	"os"

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
