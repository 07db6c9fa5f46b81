package snapshot

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"golang.org/x/sys/unix"
)

// content puts what fd has, of which e says the size, into a new file, or digests it.
func (w *walker) content(to, fd int, name string, e *entry) error {
	if w.buffer == nil {
		w.buffer = make([]byte, bufferSize)
	}
	if w.tree == nil {
		sum := sha256.New()
		err := spread(w.ctx, fd, e.Size, w.buffer, digesting{sum}.write)
		e.Digest = string(sum.Sum(nil))
		return err
	}
	target, err := unix.Openat(to, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o400|e.Mode&0o100)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	w.budget.added += e.Size
	if !w.cannot && e.Size > 0 {
		err := unix.IoctlFileClone(target, fd)
		if err == nil {
			return unix.UtimesNanoAt(to, name, e.Mtime.times(), unix.AT_SYMLINK_NOFOLLOW)
		}
		w.cannot = errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ENOTTY)
	}
	if err := w.budget.copying(e.Size); err != nil {
		return err
	}
	if err := copyBytes(w.ctx, target, fd, e.Size, w.buffer); err != nil {
		return err
	}
	return unix.UtimesNanoAt(to, name, e.Mtime.times(), unix.AT_SYMLINK_NOFOLLOW)
}

// copyBytes makes target, which is empty, what fd is. Holes stay holes.
func copyBytes(ctx context.Context, target, fd int, size int64, buffer []byte) error {
	end := int64(0)
	err := spread(ctx, fd, size, buffer, func(chunk []byte, at int64) error {
		end = at + int64(len(chunk))
		return writeAt(target, chunk, at)
	})
	if err == nil && end < size {
		err = unix.Ftruncate(target, size)
	}
	return err
}

const bufferSize = 1 << 20

// errShrank says that a file has become shorter while it was read.
var errShrank = errors.New("it became shorter while it was read")

// spread reads the size bytes of a file, without its holes.
func spread(ctx context.Context, fd int, size int64, buffer []byte, take func(chunk []byte, at int64) error) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	for at, end := int64(0), size; at < size; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if st.Blocks*512 < size { // it may have holes
			data, err := unix.Seek(fd, at, unix.SEEK_DATA)
			if errors.Is(err, unix.ENXIO) || err == nil && data >= size {
				return nil // nothing but a hole
			}
			if err == nil {
				at = data
				if end, err = unix.Seek(fd, at, unix.SEEK_HOLE); err != nil || end > size || end <= at {
					end = size
				}
			}
		}
		chunk := buffer[:min(int64(len(buffer)), end-at)]
		n, err := unix.Pread(fd, chunk, at)
		if err == nil && n == 0 {
			err = errShrank
		}
		if err == nil {
			err = take(chunk[:n], at)
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		at += int64(max(n, 0))
	}
	return nil
}

func writeAt(fd int, chunk []byte, at int64) error {
	for len(chunk) > 0 {
		n, err := unix.Pwrite(fd, chunk, at)
		if err == nil && n == 0 {
			err = io.ErrShortWrite
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		chunk, at = chunk[max(n, 0):], at+int64(max(n, 0))
	}
	return nil
}

// digesting digests the pieces of a file that are not all zeros, each with its place: where holes are doesn't matter.
type digesting struct{ sum hash.Hash }

const pieceSize = 4 << 10

var zeros [pieceSize]byte

func (d digesting) write(chunk []byte, at int64) error {
	for len(chunk) > 0 {
		piece := chunk[:min(int64(len(chunk)), pieceSize-at%pieceSize)]
		if string(piece) != string(zeros[:len(piece)]) {
			fmt.Fprintf(d.sum, "%d %d\n", at, len(piece))
			d.sum.Write(piece)
		}
		chunk, at = chunk[len(piece):], at+int64(len(piece))
	}
	return nil
}

// maxXattrs bounds the extended attributes of one file, in bytes, as the kernel does for most file systems.
const maxXattrs = 64 << 10

// readXattrs reads the attributes that users may set.
func readXattrs(fd int) []xattr {
	size, err := unix.Flistxattr(fd, nil)
	if err != nil || size == 0 || size > maxXattrs {
		return nil
	}
	names := make([]byte, size)
	if size, err = unix.Flistxattr(fd, names); err != nil {
		return nil
	}
	var found []xattr
	value := make([]byte, maxXattrs)
	for name := range strings.SplitSeq(string(names[:size]), "\x00") {
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		if n, err := unix.Fgetxattr(fd, name, value); err == nil {
			found = append(found, xattr{name, string(value[:n])})
		}
	}
	return found
}

// bytesOf is how many bytes attributes have.
func bytesOf(xattrs []xattr) (sum int) {
	for _, x := range xattrs {
		sum += len(x.Name) + len(x.Value)
	}
	return sum
}

// writeXattrs makes the attributes of users those that are wanted. A file system that has none does without.
func writeXattrs(fd int, wanted []xattr) error {
	present := readXattrs(fd)
	for _, x := range present {
		unix.Fremovexattr(fd, x.Name)
	}
	for _, x := range wanted {
		if err := unix.Fsetxattr(fd, x.Name, []byte(x.Value), 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
			return fmt.Errorf("setting the attribute %q: %v", x.Name, err) // not %w: that attributes don't fit means nothing for what follows
		}
	}
	return nil
}
