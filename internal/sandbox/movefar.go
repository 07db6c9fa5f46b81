package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/hostile"
)

// farBudget bounds what one quarantine copies to another file system: holes in a file cost its
// maker nothing, and the copy everything.
type farBudget struct {
	bytes   int64
	entries int
}

func newFarBudget() *farBudget { return &farBudget{bytes: 8 << 30, entries: 1_000_000} }

// maxFarDepth bounds how deep a folder may be that is copied: each on the way is open meanwhile.
const maxFarDepth = 200

// moveFar moves to another file system: what is at name gets a name that means nothing to any tool
// at once, is copied, and only then removed. Of what can't be copied whole nothing is left at to.
func moveFar(ctx context.Context, dir *os.File, name, to string, left *farBudget) error {
	harmless := ".forage-quarantine-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	if err := unix.Renameat2(int(dir.Fd()), name, int(dir.Fd()), harmless, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	if err := left.copy(ctx, int(dir.Fd()), harmless, to, 0); err != nil {
		return errors.Join(fmt.Errorf("copying: %w (it is called %s now)", err, harmless), hostile.RemoveAll(to))
	}
	return hostile.RemoveAt(int(dir.Fd()), harmless, nil)
}

// copy copies a file, link or folder of dir to the new path to. Sockets and FIFOs have nothing in
// them, and are left out. What is none of these is an error: it would be lost.
func (b *farBudget) copy(ctx context.Context, dir int, name, to string, depth int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if b.entries--; b.entries < 0 || depth > maxFarDepth {
		return forage.Errorf(forage.ErrRefused, "there are too many files or folders to copy them to another file system")
	}
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
		return b.copyFile(ctx, dir, name, to)
	case unix.S_IFDIR:
		return b.copyFolder(ctx, dir, name, to, depth)
	case unix.S_IFIFO, unix.S_IFSOCK:
		return nil
	default:
		return forage.Errorf(forage.ErrRefused, "%q is neither a file, a folder nor a link", name)
	}
}

func (b *farBudget) copyFile(ctx context.Context, dir int, name, to string) error {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	from := os.NewFile(uintptr(fd), name)
	defer from.Close()
	info, err := from.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return forage.Errorf(forage.ErrRefused, "%q is no file any more", name)
	case info.Size() > b.bytes:
		return forage.Errorf(forage.ErrRefused, "%q is too large to copy it to another file system", name)
	}
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode()&0o755|0o400)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { file.Close() })
	n, err := io.Copy(file, io.LimitReader(from, info.Size())) // what is added meanwhile has a writer still
	b.bytes -= n
	if !stop() {
		return context.Cause(ctx)
	}
	return errors.Join(err, file.Close())
}

func (b *farBudget) copyFolder(ctx context.Context, dir int, name, to string, depth int) error {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	folder := os.NewFile(uintptr(fd), name)
	defer folder.Close()
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for {
		names, err := folder.Readdirnames(1024)
		for _, inner := range names {
			if err := b.copy(ctx, fd, inner, filepath.Join(to, inner), depth+1); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
