package snapshot

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// digest addresses a content: the SHA-256 of every block that is not all zeros with its number
// in front, and of the size. So a hole costs nothing, however large it says it is.
type digest [sha256.Size]byte

// blockSize is the size of a block, in bytes; chunkSize is how much is read at once; pageSize is the least that is left
// out of a file with holes when it is written.
const (
	blockSize = 64 << 10
	chunkSize = 16 * blockSize
	pageSize  = 4 << 10
)

// copier reads contents: one for each worker, for the sake of its buffer.
type copier struct {
	buffer []byte
	sum    hash.Hash
}

func newCopier() *copier { return &copier{buffer: make([]byte, chunkSize), sum: sha256.New()} }

var zeros = make([]byte, blockSize) // never written

// errShrank says that a file has become shorter while it was read.
var errShrank = errors.New("it became shorter while it was read")

// pass reads size bytes of from and returns their digest. With to, it writes them there, and leaves holes
// where there are zeros: to is empty at first.
func (c *copier) pass(ctx context.Context, from, to *os.File, size int64) (digest, error) {
	c.sum.Reset()
	var st unix.Stat_t
	if err := unix.Fstat(int(from.Fd()), &st); err != nil {
		return digest{}, err
	}
	holes, written := sparse(&st), int64(0)
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return digest{}, context.Cause(ctx)
		}
		if holes {
			data, err := unix.Seek(int(from.Fd()), at, unix.SEEK_DATA)
			if errors.Is(err, unix.ENXIO) || err == nil && data >= size {
				break // nothing but a hole
			}
			if err == nil {
				at = max(at, data-data%blockSize)
			}
		}
		chunk := c.buffer[:min(chunkSize, size-at)]
		if err := readAt(from, chunk, at); err != nil {
			return digest{}, err
		}
		c.take(chunk, at)
		if to != nil {
			end, err := write(to, chunk, at, holes)
			if err != nil {
				return digest{}, err
			}
			written = max(written, end)
		}
		at += int64(len(chunk))
	}
	if to != nil && written < size {
		if err := to.Truncate(size); err != nil {
			return digest{}, err
		}
	}
	return c.end(size), nil
}

// sparse says whether a file may have holes.
func sparse(st *unix.Stat_t) bool { return st.Blocks*512 < st.Size }

func readAt(from *os.File, chunk []byte, at int64) error {
	n, err := from.ReadAt(chunk, at)
	if n == len(chunk) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return errShrank
	}
	return err
}

// take digests a chunk that begins at a multiple of blockSize.
func (c *copier) take(chunk []byte, at int64) {
	for i := 0; i < len(chunk); i += blockSize {
		block := chunk[i:min(i+blockSize, len(chunk))]
		if isZero(block) {
			continue
		}
		var number [8]byte
		binary.BigEndian.PutUint64(number[:], uint64(at+int64(i))/blockSize)
		c.sum.Write(number[:])
		c.sum.Write(block)
	}
}

// write writes what is not zero of a chunk: to has nothing there. end is where it wrote last. A chunk of a file with holes is
// looked at in smaller pieces, so that as little as possible becomes more than it was.
func write(to *os.File, chunk []byte, at int64, holes bool) (end int64, err error) {
	piece := blockSize
	if holes {
		piece = pageSize
	}
	for i := 0; i < len(chunk); {
		j := i // what follows each other is written together
		for j < len(chunk) && !isZero(chunk[j:min(j+piece, len(chunk))]) {
			j = min(j+piece, len(chunk))
		}
		if j > i {
			if _, err := to.WriteAt(chunk[i:j], at+int64(i)); err != nil {
				return end, err
			}
			end = at + int64(j)
		}
		i = j + piece
	}
	return end, nil
}

func isZero(piece []byte) bool { return bytes.Equal(piece, zeros[:len(piece)]) }

func (c *copier) end(size int64) (d digest) {
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], uint64(size))
	c.sum.Write(number[:])
	c.sum.Sum(d[:0])
	return d
}

// objects are the contents that a store has.
type objects struct {
	dir string // the store's
}

func (d digest) name() string {
	text := hex.EncodeToString(d[:])
	return filepath.Join(text[:2], text[2:])
}

func (o objects) path(d digest) string { return filepath.Join(o.dir, "objects", d.name()) }

// has says whether a content is there in its full length. One that a power cut has cut short is not.
func (o objects) has(d digest, size int64) bool {
	if size == 0 {
		return true // needs no object
	}
	var st unix.Stat_t
	return unix.Lstat(o.path(d), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size == size
}

// unfinished begins the names of files that are about to become objects. It is no digest.
const unfinished = "object-"

// temporary is a file that publish makes an object of. Where it is known of which, it is beside that: all who make files in one folder
// wait for each other.
func (o objects) temporary(of *digest) (*os.File, error) {
	dir := filepath.Join(o.dir, "tmp")
	if of != nil {
		dir = filepath.Dir(o.path(*of))
	}
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_EXCL
	name := filepath.Join(dir, unfinished+rand.Text())
	file, err := openFile(name, flags)
	if !errors.Is(err, os.ErrNotExist) {
		return file, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return openFile(name, flags)
}

// openFile is os.OpenFile of what is known to be a file: nobody has to ask whether it can be waited for.
func openFile(path string, flags int) (*os.File, error) {
	fd, err := unix.Open(path, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// publish makes file the content d, or removes it if there is one; it closes file. added says which.
func (o objects) publish(file *os.File, d digest, size int64) (added bool, err error) {
	discard := func(err error) error { return errors.Join(err, file.Close(), os.Remove(file.Name())) }
	if o.has(d, size) {
		return false, discard(nil)
	}
	if err := file.Chmod(0o400); err != nil {
		return false, discard(err)
	}
	err = os.Rename(file.Name(), o.path(d))
	if errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(o.path(d)), 0o700); err != nil {
			return false, discard(err)
		}
		err = os.Rename(file.Name(), o.path(d))
	}
	if err != nil {
		return false, discard(err)
	}
	return true, file.Close()
}

// clone makes to, which is empty, share the blocks of from; false where the file systems can't.
func clone(to, from *os.File) bool {
	return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil
}

// bring puts the content d into to, which is empty, and checks it on the way.
func (o objects) bring(ctx context.Context, c *copier, to *os.File, d digest, size int64) error {
	if size == 0 {
		return nil
	}
	from, err := openFile(o.path(d), unix.O_RDONLY)
	if err != nil {
		return fmt.Errorf("opening its content: %w", err)
	}
	defer from.Close()
	var got digest
	if size >= minCloned && clone(to, from) {
		got, err = c.pass(ctx, from, nil, size)
	} else {
		got, err = c.pass(ctx, from, to, size)
	}
	if err == nil && got != d {
		err = errors.New("its content is damaged in the store of snapshots")
	}
	return err
}
