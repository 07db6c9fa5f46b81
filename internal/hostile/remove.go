package hostile

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// RemoveAll is os.RemoveAll for a tree that a sandbox or an image made, and that doesn't change any
// more: permissions may have been taken away, and folders may lie deeper than a path can say.
func RemoveAll(path string) error {
	parent, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err == nil {
		err = RemoveAt(parent, filepath.Base(path), nil)
		unix.Close(parent)
	}
	if err != nil {
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

// level is a folder on the way down in RemoveAt.
type level struct {
	name    string
	folders []string // still to be emptied
	stays   bool
}

// RemoveAt removes what is called name in the folder parent, with all that is in it; an absent name
// succeeds. What keep says stays, with the folders that it is in; nil keeps nothing. It goes down
// and up with one descriptor.
func RemoveAt(parent int, name string, keep func(*unix.Stat_t) bool) error {
	if folder, err := unlink(parent, name, keep); !folder {
		return err
	}
	at, err := unix.Openat(parent, ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { unix.Close(at) }()
	down := []level{{folders: []string{name}}}
	for {
		top := &down[len(down)-1]
		if n := len(top.folders); n > 0 {
			next := level{name: top.folders[n-1]}
			top.folders = top.folders[:n-1]
			st, err := enter(&at, next.name)
			if err != nil {
				return err
			}
			next.stays = keep != nil && keep(&st)
			if next.folders, err = empty(at, keep); err != nil {
				return err
			}
			down = append(down, next)
			continue
		}
		if down = down[:len(down)-1]; len(down) == 0 {
			return nil
		}
		if err := move(&at, ".."); err != nil {
			return err
		}
		if top.stays {
			continue
		}
		err := unix.Unlinkat(at, top.name, unix.AT_REMOVEDIR)
		if err != nil && !(keep != nil && errors.Is(err, unix.ENOTEMPTY)) {
			return err
		}
	}
}

// enter replaces the descriptor by that of a folder in it, in which its owner may do everything.
func enter(at *int, name string) (st unix.Stat_t, err error) {
	if err := unix.Fstatat(*at, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return st, err
	}
	if st.Mode&0o700 != 0o700 { // no link: it could not be removed
		if err := unix.Fchmodat(*at, name, 0o700, 0); err != nil {
			return st, err
		}
	}
	return st, move(at, name)
}

func move(at *int, name string) error {
	next, err := unix.Openat(*at, name, folderFlags, 0)
	if err != nil {
		return err
	}
	unix.Close(*at)
	*at = next
	return nil
}

// unlink removes anything but a folder.
func unlink(parent int, name string, keep func(*unix.Stat_t) bool) (folder bool, err error) {
	if keep != nil {
		var st unix.Stat_t
		err := unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR && keep(&st) || errors.Is(err, unix.ENOENT) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	err = unix.Unlinkat(parent, name, 0)
	if errors.Is(err, unix.EISDIR) {
		return true, nil
	}
	if errors.Is(err, unix.ENOENT) {
		err = nil
	}
	return false, err
}

// empty removes what is not a folder from one, and names the folders in it.
func empty(at int, keep func(*unix.Stat_t) bool) (folders []string, err error) {
	names, err := List(at)
	for _, name := range names {
		folder, err := unlink(at, name, keep)
		if err != nil {
			return nil, err
		}
		if folder {
			folders = append(folders, name)
		}
	}
	return folders, err
}

// List names what is in a folder.
func List(at int) ([]string, error) {
	fd, err := unix.Openat(at, ".", folderFlags, 0)
	if err != nil {
		return nil, err
	}
	folder := os.NewFile(uintptr(fd), ".")
	names, err := folder.Readdirnames(-1)
	return names, errors.Join(err, folder.Close())
}
