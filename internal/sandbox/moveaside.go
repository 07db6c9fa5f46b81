package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"forage"
)

// moveAside moves what is at rel below the workspace root to the same path below aside, a folder of ours, and
// returns where it is then. root is hostile, and changes: no link in it is followed.
func moveAside(root, rel, aside string) (string, error) {
	if rel == "." || path.Clean(rel) != rel || path.IsAbs(rel) {
		return "", forage.Errorf(forage.ErrRefused, "%q can't be moved", rel)
	}
	source, err := openParent(root, rel)
	if err != nil {
		return "", err
	}
	defer source.Close()
	target, err := makeParent(aside, rel)
	if err != nil {
		return "", err
	}
	defer target.Close()
	name := path.Base(rel)
	err = unix.Renameat2(int(source.Fd()), name, int(target.Fd()), name, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EXDEV) {
		err = moveFar(source, name, filepath.Join("/proc/self/fd", strconv.Itoa(int(target.Fd())), name))
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(aside, rel), nil
}

// makeParent makes and opens the folder below aside that rel belongs in. Links that were moved there before are not followed.
func makeParent(aside, rel string) (*os.File, error) {
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(aside)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := root.MkdirAll(path.Dir(rel), 0o700); err != nil {
		return nil, err
	}
	return openParent(aside, rel)
}

// openParent opens the folder that rel is in, through no link.
func openParent(root, rel string) (*os.File, error) {
	top, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	fd, err := unix.Openat2(int(top.Fd()), path.Dir(rel), &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, fmt.Errorf("opening its folder: %w", err)
	}
	return os.NewFile(uintptr(fd), path.Dir(rel)), nil
}

// moveFar moves to another file system: what is at name gets a name that means nothing to any tool at once, is
// copied, and only then removed.
func moveFar(dir *os.File, name, to string) error {
	harmless := ".forage-quarantine-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	if err := unix.Renameat2(int(dir.Fd()), name, int(dir.Fd()), harmless, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	if err := copyAside(int(dir.Fd()), harmless, to); err != nil {
		return fmt.Errorf("copying: %w (it is called %s now)", err, harmless)
	}
	root, err := os.OpenRoot("/proc/self/fd/" + strconv.Itoa(int(dir.Fd())))
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll(harmless)
}

// copyAside copies a file, link or folder of dir to the new path to. What is none of these is an error: it would be lost.
func copyAside(dir int, name, to string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(dir, name, buf)
		if err != nil {
			return err
		}
		return os.Symlink(string(buf[:n]), to)
	case unix.S_IFREG:
		return copyFileAside(dir, name, to, os.FileMode(st.Mode&0o755|0o400))
	case unix.S_IFDIR:
		return copyFolderAside(dir, name, to)
	default:
		return forage.Errorf(forage.ErrRefused, "%q is neither a file, a folder nor a link", name)
	}
}

func copyFileAside(dir int, name, to string, mode os.FileMode) error {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	from := os.NewFile(uintptr(fd), name)
	defer from.Close()
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Close())
}

func copyFolderAside(dir int, name, to string) error {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	folder := os.NewFile(uintptr(fd), name)
	defer folder.Close()
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, inner := range names {
		if err := copyAside(fd, inner, filepath.Join(to, inner)); err != nil {
			return err
		}
	}
	return nil
}
