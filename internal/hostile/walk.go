// Package hostile handles folders whose content is hostile: what a sandbox wrote, or may still
// write. It follows no link, waits for no FIFO and leaves no folder. What the files mean is decided
// above.
package hostile

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// MaxDepth is how deep Walk goes.
const MaxDepth = 200

// ErrTooDeep is a folder below MaxDepth others.
var ErrTooDeep = errors.New("folders are nested too deeply")

// folderFlags open a folder and nothing else, without following a link.
const folderFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// Walk calls visit for the folder root, as "", and for everything below it: a folder before its
// content, names in order. What visit says of a link is about the link. fs.SkipDir leaves out a
// folder's content. What vanishes meanwhile is left out.
func Walk(root string, visit func(rel string, st *unix.Stat_t) error) error {
	fd, err := unix.Open(root, folderFlags, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: root, Err: err}
	}
	var st unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &st), visit("", &st)); err != nil {
		unix.Close(fd)
		if errors.Is(err, fs.SkipDir) {
			return nil
		}
		return err
	}
	if err := walk(fd, "", 0, visit); err != nil {
		return &fs.PathError{Op: "walk", Path: root, Err: err}
	}
	return nil
}

// walk closes fd.
func walk(fd int, at string, depth int, visit func(string, *unix.Stat_t) error) error {
	folder := os.NewFile(uintptr(fd), at)
	defer folder.Close()
	if depth == MaxDepth {
		return ErrTooDeep
	}
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		var st unix.Stat_t
		err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		rel := path.Join(at, name)
		if err == nil {
			err = visit(rel, &st)
		}
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			var inner int
			if inner, err = unix.Openat(fd, name, folderFlags, 0); err == nil {
				err = walk(inner, rel, depth+1, visit)
			} else if errors.Is(err, unix.ENOENT) {
				err = nil
			}
		}
		if err != nil && !errors.Is(err, fs.SkipDir) {
			return err
		}
	}
	return nil
}
