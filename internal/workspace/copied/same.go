package copied

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/workspace/snapshot"
)

// without leaves out what the source has in the same state, since apply brought it there: that would not be lost. Where one of
// the two can't be looked at, or nobody waits for it any more, nothing is left out.
func without(ctx context.Context, found []snapshot.Difference, w forage.Workspace) []snapshot.Difference {
	work, err := os.OpenRoot(w.Path)
	if err != nil {
		return found
	}
	defer work.Close()
	source, err := os.OpenRoot(w.Source)
	if err != nil {
		return found
	}
	defer source.Close()
	return slices.DeleteFunc(found, func(d snapshot.Difference) bool { return d.Path != "" && same(ctx, work, source, d.Path) })
}

// same says whether both have the same there: nothing, a folder, a link, or a file with what git would keep of it.
func same(ctx context.Context, a, b *os.Root, path string) bool {
	one, err := a.Lstat(path)
	two, otherErr := b.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) && errors.Is(otherErr, fs.ErrNotExist) {
		return true
	}
	if err != nil || otherErr != nil || one.Mode().Type() != two.Mode().Type() {
		return false
	}
	switch one.Mode().Type() {
	case fs.ModeDir:
		return one.Mode() == two.Mode()
	case fs.ModeSymlink:
		to, err := a.Readlink(path)
		other, otherErr := b.Readlink(path)
		return err == nil && otherErr == nil && to == other
	case 0:
		return one.Size() == two.Size() && (one.Mode()^two.Mode())&0o100 == 0 && sameBytes(ctx, a, b, path)
	}
	return false
}

// sameBytes compares two files. What was one a moment ago may be a FIFO by now.
func sameBytes(ctx context.Context, a, b *os.Root, path string) bool {
	var files [2]*os.File
	for i, root := range [...]*os.Root{a, b} {
		file, err := root.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
		if err != nil {
			return false
		}
		defer file.Close()
		if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
			return false
		}
		files[i] = file
	}
	one, two := make([]byte, 64<<10), make([]byte, 64<<10)
	for ctx.Err() == nil { // a hole costs nothing, however long it takes to read
		n, err := io.ReadFull(files[0], one)
		m, otherErr := io.ReadFull(files[1], two)
		if !bytes.Equal(one[:n], two[:m]) || !errors.Is(err, otherErr) {
			return false
		}
		if err != nil {
			return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
	return false
}
