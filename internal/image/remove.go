package image

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Whiteouts (OCI image-spec, layer.md "Whiteouts").
const (
	whiteoutPrefix = ".wh."
	whiteoutMeta   = ".wh..wh." // what AUFS keeps for itself
	whiteoutOpaque = ".wh..wh..opq"
)

// whiteout hides what layers below put into a folder: one name, or all of them.
// It spares what its own layer has put there, in whatever order.
func (t *tree) whiteout(dir, base string) error {
	hidden := strings.TrimPrefix(base, whiteoutPrefix)
	if hidden == "" || hidden == "." || hidden == ".." {
		return errEscapes
	}
	if t.mine == nil || (strings.HasPrefix(base, whiteoutMeta) && base != whiteoutOpaque) {
		return nil
	}
	parent, err := t.openDir(dir)
	if err != nil {
		if missing(err) {
			return nil // nothing there to hide
		}
		return err
	}
	defer unix.Close(parent)
	if base != whiteoutOpaque {
		return removeAt(parent, hidden, t.mine)
	}
	names, err := list(parent)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := removeAt(parent, name, t.mine); err != nil {
			return err
		}
	}
	return nil
}

// level is a folder on the way down in removeAt.
type level struct {
	name    string
	folders []string // still to be emptied
	spare   bool     // the folder itself stays
}

// removeAt removes a file, or a folder with everything in it, except inodes in spare and
// the folders that they are in. An absent name succeeds. It follows no link, and
// goes down and up with one descriptor, however deep an image nests its folders;
// nobody else may be moving folders there meanwhile.
func removeAt(parent int, name string, spare map[uint64]struct{}) error {
	if done, err := unlink(parent, name, spare); done || err != nil {
		return err
	}
	var st unix.Stat_t
	at, err := unix.Openat(parent, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { unix.Close(at) }()
	down := []level{{folders: []string{name}}}
	for {
		top := &down[len(down)-1]
		if n := len(top.folders); n > 0 {
			next := top.folders[n-1]
			top.folders = top.folders[:n-1]
			if err := move(&at, next); err != nil {
				return err
			}
			if err := unix.Fstat(at, &st); err != nil {
				return err
			}
			_, kept := spare[st.Ino]
			folders, err := emptyFolder(at, spare)
			if err != nil {
				return err
			}
			down = append(down, level{name: next, folders: folders, spare: kept})
			continue
		}
		if len(down) == 1 {
			return nil
		}
		if err := move(&at, ".."); err != nil {
			return err
		}
		if err := dropFolder(at, top.name, top.spare, spare != nil); err != nil {
			return err
		}
		down = down[:len(down)-1]
	}
}

// move replaces the descriptor by that of a folder in it.
func move(at *int, name string) error {
	next, err := unix.Openat(*at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	unix.Close(*at)
	*at = next
	return nil
}

// dropFolder removes an emptied folder; where something was spared it may be full.
func dropFolder(at int, name string, stays, maybeFull bool) error {
	if stays {
		return nil
	}
	err := unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
	if maybeFull && err == unix.ENOTEMPTY {
		return nil
	}
	return err
}

// unlink removes anything but a folder, which it leaves: done is then false.
func unlink(parent int, name string, spare map[uint64]struct{}) (done bool, err error) {
	if len(spare) > 0 {
		var st unix.Stat_t
		if err := unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return true, ignoreAbsent(err)
		}
		if _, ok := spare[st.Ino]; ok && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return true, nil
		}
	}
	err = unix.Unlinkat(parent, name, 0)
	if err == unix.EISDIR {
		return false, nil
	}
	return true, ignoreAbsent(err)
}

func ignoreAbsent(err error) error {
	if err == unix.ENOENT {
		return nil
	}
	return err
}

// emptyFolder removes what is not a folder from one, and names the folders in it.
func emptyFolder(at int, spare map[uint64]struct{}) (folders []string, err error) {
	names, err := list(at)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		done, err := unlink(at, name, spare)
		if err != nil {
			return nil, err
		}
		if !done {
			folders = append(folders, name)
		}
	}
	return folders, nil
}

// list names what is in a folder.
func list(at int) ([]string, error) {
	fd, err := unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), ".")
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}

// removeTree removes a path of the cache.
func removeTree(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	if err := removeAt(int(dir.Fd()), filepath.Base(path), nil); err != nil {
		err = &os.PathError{Op: "remove", Path: path, Err: err}
		return errors.Join(err, dir.Close())
	}
	return dir.Close()
}
