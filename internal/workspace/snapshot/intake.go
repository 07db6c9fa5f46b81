package snapshot

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"forage"
)

// intake takes contents into the store.
type intake struct {
	objects
	ctx      context.Context
	now      func() time.Time
	jobs     chan job
	err      atomic.Pointer[error]
	added    atomic.Int64 // bytes
	noClones atomic.Bool  // the file systems can't
	listing  bool         // digests are wanted, and no contents

	maxCopied int64 // bytes; 0 is no bound
	copied    atomic.Int64
}

// copying says that size bytes are about to be written.
func (in *intake) copying(size int64) error {
	if all := in.copied.Add(size); in.maxCopied > 0 && all > in.maxCopied {
		return forage.Errorf(forage.ErrRefused, "more than %d bytes would have to be copied", in.maxCopied)
	}
	return nil
}

// workers is how many files are read or written at one time.
func workers() int { return min(max(runtime.GOMAXPROCS(0), 2), 8) }

// readings is how often a file is read that changes meanwhile.
const readings = 3

// keep reads file, until it has not changed meanwhile, and fills in e. A file that never holds still
// is kept as it was read last: each of its parts was there.
func (in *intake) keep(c *copier, file *os.File, e *entry) error {
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
		e.racy = !time.Unix(before.Ctim.Sec, before.Ctim.Nsec).Before(in.now().Add(-racyMargin))
		e.xattrs = readXattrs(fd)
		var err error
		e.digest, err = in.content(c, file, before.Size)
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

// content takes in size bytes of file.
func (in *intake) content(c *copier, file *os.File, size int64) (digest, error) {
	if in.listing {
		return c.pass(in.ctx, file, nil, size)
	}
	if size <= chunkSize {
		return in.small(c, file, size)
	}
	to, err := in.temporary()
	if err != nil {
		return digest{}, err
	}
	var d digest
	if in.cloned(to, file, size) {
		d, err = c.pass(in.ctx, to, nil, size)
	} else if err = in.copying(size); err == nil {
		d, err = c.pass(in.ctx, file, to, size)
	}
	if err != nil {
		return d, errors.Join(err, to.Close(), os.Remove(to.Name()))
	}
	added, err := in.publish(to, d, size)
	if added {
		in.added.Add(size)
	}
	return d, err
}

// cloned has the file system share the blocks of file, if it can.
func (in *intake) cloned(to, file *os.File, size int64) bool {
	if in.noClones.Load() {
		return false
	}
	if !clone(to, file) {
		in.noClones.Store(true)
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
func (in *intake) small(c *copier, file *os.File, size int64) (digest, error) {
	c.sum.Reset()
	chunk := c.buffer[:size]
	if size > 0 {
		if err := readAt(file, chunk, 0); err != nil {
			return digest{}, err
		}
	}
	if err := c.take(nil, chunk, 0); err != nil {
		return digest{}, err
	}
	d := c.end(size)
	if in.has(d, size) {
		return d, nil
	}
	to, err := in.temporary()
	if err != nil {
		return d, err
	}
	if !in.cloned(to, file, size) {
		err := in.copying(size)
		if err == nil {
			_, err = to.WriteAt(chunk, 0)
		}
		if err != nil {
			return d, errors.Join(err, to.Close(), os.Remove(to.Name()))
		}
	} else if err := in.sameAs(c, to, d, size); err != nil {
		return d, errors.Join(err, to.Close(), os.Remove(to.Name()))
	}
	added, err := in.publish(to, d, size)
	if added {
		in.added.Add(size)
	}
	return d, err
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
	for name := range strings.SplitSeq(string(names[:size]), "\x00") {
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		value := make([]byte, maxXattrs)
		if n, err := unix.Fgetxattr(fd, name, value); err == nil {
			found = append(found, xattr{name, string(value[:n])})
		}
	}
	return found
}

// writeXattrs makes the attributes of users those that are wanted. A file system that has none does without.
func writeXattrs(fd int, wanted, present []xattr) {
	for _, x := range present {
		unix.Fremovexattr(fd, x.name)
	}
	for _, x := range wanted {
		unix.Fsetxattr(fd, x.name, []byte(x.value), 0)
	}
}
