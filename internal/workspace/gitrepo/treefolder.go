package gitrepo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

var (
	errLeft    = errors.New("left out")
	errFolder  = errors.New("it is a folder")
	errChanged = errors.New("it changed while it was read")
)

// folderRoot is an opened folder of hostile files, which are reached through no link and from nowhere but below it.
type folderRoot struct{ fd int }

// beneath is openat2(2)'s word for that. RESOLVE_NO_XDEV is not there: a file system may be mounted
// on a folder inside by the user.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

func openFolder(name string) (*folderRoot, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &folderRoot{fd}, nil
}

func (r *folderRoot) close() { unix.Close(r.fd) }

// folderEntry is an open file, or what a link says.
type folderEntry struct {
	file       *os.File
	size       int64
	executable bool
	link       []byte // nil: no link
}

// open opens a file without waiting for anything. fs.ErrNotExist: it is not there, a link on the way included;
// errLeft: it can't be read; errFolder.
func (r *folderRoot) open(name string) (folderEntry, error) {
	fd, err := r.openat(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return folderEntry{}, err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return folderEntry{}, err
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return folderEntry{}, errFolder
	case unix.S_IFLNK:
		return readLink(fd)
	case unix.S_IFREG:
		return r.openFile(name)
	}
	return folderEntry{}, fmt.Errorf("it is neither a file nor a link: %w", errLeft)
}

func (r *folderRoot) openat(name string, flags uint64) (int, error) {
	fd, err := unix.Openat2(r.fd, name, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: beneath})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return -1, fs.ErrNotExist
	case err != nil:
		return -1, fmt.Errorf("%w: %w", err, errLeft)
	}
	return fd, nil
}

// openFile opens what was a regular file a moment ago, and looks whether it still is.
func (r *folderRoot) openFile(name string) (folderEntry, error) {
	fd, err := r.openat(name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return folderEntry{}, err
	}
	file := os.NewFile(uintptr(fd), path.Base(name))
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("it is no file any more: %w", errLeft)
	}
	if err != nil {
		return folderEntry{}, errors.Join(err, file.Close())
	}
	return folderEntry{file: file, size: info.Size(), executable: info.Mode()&0o100 != 0}, nil
}

func readLink(fd int) (folderEntry, error) {
	target := make([]byte, maxLink)
	n, err := unix.Readlinkat(fd, "", target)
	if err != nil {
		return folderEntry{}, err
	}
	return folderEntry{link: target[:n]}, nil
}

// exists says whether anything but a folder is there.
func (r *folderRoot) exists(name string) bool {
	entry, err := r.open(name)
	if entry.file != nil {
		entry.file.Close()
	}
	return err == nil || errors.Is(err, errLeft)
}
