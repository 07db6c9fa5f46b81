package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/workspace"
)

// intake takes contents into the store.
type intake struct {
	objects
	ctx     context.Context
	giveUp  context.CancelCauseFunc // of ctx
	now     func() time.Time
	jobs    chan job
	added   atomic.Int64 // bytes
	listing bool         // digests are wanted, and no contents

	maxCopied int64 // bytes; 0 is no bound
	copied    atomic.Int64
	held      atomic.Int64
}

// maxHeld bounds what is kept in memory, and in the manifest, of names, targets of links and attributes, in bytes.
const maxHeld = 512 << 20

// hold says that so many bytes more are.
func (in *intake) hold(bytes int) error {
	if in.held.Add(int64(bytes)) > maxHeld {
		return forage.Errorf(forage.ErrRefused, "the names, links and attributes of files have more than %d bytes", maxHeld)
	}
	return nil
}

// copying says that size bytes are about to be written.
func (in *intake) copying(size int64) error {
	if all := in.copied.Add(size); in.maxCopied > 0 && all > in.maxCopied {
		return forage.Errorf(forage.ErrRefused, "more than %d bytes would have to be copied", in.maxCopied)
	}
	return nil
}

// parallel is how many files are read or written at one time.
func parallel() int { return min(max(runtime.GOMAXPROCS(0), 2), 8) }

// minCloned is from what size on the blocks of a file are shared, in bytes. A clone is read again, as it is of another moment, and
// what it saves of a small one is not worth that.
const minCloned = 64 << 10

// readings is how often a file is read that changes meanwhile.
const readings = 3

// keep reads a file, until it has not changed meanwhile, and fills in its entry. One that never holds still
// is kept as it was read last: each of its parts was there.
func (in *intake) keep(c *copier, j job) error {
	file, e := j.file, j.e
	fd := int(file.Fd())
	for n := 1; ; n++ {
		var before, after unix.Stat_t
		if err := unix.Fstat(fd, &before); err != nil {
			return err
		}
		if before.Mode&unix.S_IFMT != unix.S_IFREG {
			e.leave("became something else while it was read")
			return nil
		}
		e.look(&before)
		e.racy = workspace.Racy(before.Ctim, in.now())
		if e.xattrs = j.xattrs; !j.closed {
			e.xattrs = readXattrs(fd)
		}
		err := in.hold(bytesOf(e.xattrs))
		if err != nil {
			return err
		}
		e.digest, err = in.content(c, file, &before)
		if err == nil {
			err = unix.Fstat(fd, &after)
		}
		if err != nil && !errors.Is(err, errShrank) {
			return err
		}
		still := err == nil && before.Size == after.Size && before.Mtim == after.Mtim && before.Ctim == after.Ctim
		if still {
			return nil
		}
		e.racy = true
		if n == readings {
			if err != nil {
				e.leave("does not hold still")
			}
			return nil
		}
	}
}

// content takes in what file has, which is as st says.
func (in *intake) content(c *copier, file *os.File, st *unix.Stat_t) (d digest, err error) {
	if in.listing {
		return c.pass(in.ctx, file, nil, st.Size)
	}
	if st.Size <= chunkSize {
		return in.small(c, file, st)
	}
	to, err := in.temporary(nil)
	if err != nil {
		return digest{}, err
	}
	if in.cloned(to, file, st.Size) {
		d, err = c.pass(in.ctx, to, nil, st.Size)
	} else if err = in.copying(st.Size); err == nil {
		d, err = c.pass(in.ctx, file, to, st.Size)
	}
	return d, in.done(to, d, st.Size, err)
}

// done makes an object of what was written to a temporary file, or takes that away.
func (in *intake) done(to *os.File, d digest, size int64, err error) error {
	if err != nil {
		return errors.Join(err, to.Close(), os.Remove(to.Name()))
	}
	added, err := in.publish(to, d, size)
	if added {
		in.added.Add(size)
	}
	return err
}

// cloned has the file system share the blocks of file, if it can.
func (in *intake) cloned(to, file *os.File, size int64) bool {
	if !clone(to, file) {
		return false
	}
	var st unix.Stat_t
	if unix.Fstat(int(to.Fd()), &st) == nil && st.Size == size {
		return true
	}
	to.Truncate(0) // it has changed: it is read again, and the reader notices
	return false
}

// small takes in what fits the buffer: it is written only if it is not there.
func (in *intake) small(c *copier, file *os.File, st *unix.Stat_t) (digest, error) {
	c.sum.Reset()
	chunk := c.buffer[:st.Size]
	if st.Size > 0 {
		if err := readAt(file, chunk, 0); err != nil {
			return digest{}, err
		}
	}
	c.take(chunk, 0)
	d := c.end(st.Size)
	if in.has(d, st.Size) {
		return d, nil
	}
	to, err := in.temporary(&d)
	if err != nil {
		return d, err
	}
	if st.Size >= minCloned && in.cloned(to, file, st.Size) {
		err = in.sameAs(c, to, d, st.Size)
	} else if err = in.copying(st.Size); err == nil {
		var end int64
		if end, err = write(to, chunk, 0, sparse(st)); err == nil && end < st.Size { // XFS writes all out before it truncates
			err = to.Truncate(st.Size)
		}
	}
	return d, in.done(to, d, st.Size, err)
}

// sameAs makes sure that a clone is what was read: it was made later.
func (in *intake) sameAs(c *copier, to *os.File, d digest, size int64) error {
	got, err := c.pass(in.ctx, to, nil, size)
	if err == nil && got != d {
		err = errShrank
	}
	return err
}

// maxXattrs bounds the extended attributes of one file, in bytes, as the kernel does for most file systems.
const maxXattrs = 64 << 10

// readXattrs reads the attributes that users may set. Where there are none, or the file system
// has no such thing, that is one call.
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
	var value []byte
	for name := range strings.SplitSeq(string(names[:size]), "\x00") {
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		if value == nil {
			value = make([]byte, maxXattrs)
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
		sum += len(x.name) + len(x.value)
	}
	return sum
}

// writeXattrs makes the attributes of users those that are wanted. A file system that has none does without.
func writeXattrs(fd int, wanted, present []xattr) error {
	for _, x := range present {
		unix.Fremovexattr(fd, x.name)
	}
	for _, x := range wanted {
		if err := unix.Fsetxattr(fd, x.name, []byte(x.value), 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
			return fmt.Errorf("setting the attribute %q: %v", x.name, err) // not %w: that attributes don't fit means nothing for what follows
		}
	}
	return nil
}
