package gitrepo

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// removeAll is os.RemoveAll for what somebody hostile has made, who does nothing there any more: permissions may have been
// taken away, and folders may lie deeper than a process can have files open.
func removeAll(path string) error {
	parent, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err == nil {
		err = new(remover).remove(parent, filepath.Base(path), 0)
		unix.Close(parent)
	}
	if err != nil {
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

// maxOpen is how many folders a remover has open, one in the other. What lies deeper it moves to the first of them.
const maxOpen = 100

type remover struct {
	top    int // the first folder
	raised int // folders that were moved there
}

// remove removes what is called name in a folder.
func (r *remover) remove(in int, name string, depth int) error {
	err := unix.Unlinkat(in, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) {
		return err
	}
	folder, err := openOwn(in, name)
	if err != nil {
		return err
	}
	defer folder.Close()
	if depth == maxOpen {
		r.raised++
		return unix.Renameat2(in, name, r.top, ".forage-removed-"+rand.Text(), unix.RENAME_NOREPLACE)
	}
	if depth == 0 {
		r.top = int(folder.Fd())
	}
	for before := -1; before < r.raised; { // what was raised meanwhile is in the first folder now
		before = r.raised
		names, err := folder.Readdirnames(-1)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := r.remove(int(folder.Fd()), name, depth+1); err != nil {
				return err
			}
		}
		if depth > 0 {
			break
		}
		if _, err := folder.Seek(0, 0); err != nil {
			return err
		}
	}
	return unix.Unlinkat(in, name, unix.AT_REMOVEDIR)
}

// openOwn opens a folder, and lets its owner do everything in it.
func openOwn(in int, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(in, name, flags, 0)
	if errors.Is(err, unix.EACCES) { // no link: it could be removed
		if err := unix.Fchmodat(in, name, 0o700, 0); err != nil {
			return nil, err
		}
		fd, err = unix.Openat(in, name, flags, 0)
	}
	if err != nil {
		return nil, err
	}
	folder := os.NewFile(uintptr(fd), name)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&0o700 != 0o700 {
		err = unix.Fchmod(fd, 0o700)
	}
	if err != nil {
		folder.Close()
		return nil, err
	}
	return folder, nil
}
