package gitrepo

import (
	"compress/zlib"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// blobs writes contents as loose objects: gitformat-loose(5). git could do it, if it were to open the files by
// their names, or took many contents from a stream.
type blobs struct {
	objects string
	digest  func() hash.Hash
	digits  int // of an id
	zip     *zlib.Writer
	buffer  []byte
}

func newBlobs(s *Shadow) *blobs {
	b := &blobs{objects: filepath.Join(s.Dir, "objects"), digest: sha1.New, digits: 2 * sha1.Size}
	if s.Repository.ObjectFormat == "sha256" {
		b.digest, b.digits = sha256.New, 2*sha256.Size
	}
	return b
}

// write makes a blob of the content, which has to have that size: errChanged.
func (b *blobs) write(ctx context.Context, content io.Reader, size int64) (id string, err error) {
	file, err := os.CreateTemp(b.objects, "tmp_obj_") // by this name git's gc knows what a crash left
	if err != nil {
		return "", err
	}
	defer func() {
		if removed := os.Remove(file.Name()); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}()
	if b.zip == nil {
		b.buffer = make([]byte, 256<<10)
		if b.zip, err = zlib.NewWriterLevel(file, zlib.BestSpeed); err != nil {
			return "", errors.Join(err, file.Close())
		}
	}
	b.zip.Reset(file)
	digest := b.digest()
	out := io.MultiWriter(b.zip, digest)
	_, err = fmt.Fprintf(out, "blob %d\x00", size)
	if err == nil {
		err = b.copy(ctx, out, content, size)
	}
	if err := errors.Join(err, b.zip.Close(), file.Chmod(0o444), file.Close()); err != nil {
		return "", err
	}
	id = hex.EncodeToString(digest.Sum(nil))
	return id, b.place(file.Name(), id)
}

// copy copies exactly size bytes.
func (b *blobs) copy(ctx context.Context, out io.Writer, content io.Reader, size int64) error {
	var copied int64
	for ctx.Err() == nil {
		n, err := content.Read(b.buffer)
		if copied += int64(n); copied > size {
			return errChanged
		}
		if _, err := out.Write(b.buffer[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			if copied < size {
				return errChanged
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// place gives a written object its name, where there is none of that name.
func (b *blobs) place(temporary, id string) error {
	name := filepath.Join(b.objects, id[:2], id[2:])
	if _, err := os.Lstat(name); err == nil {
		return nil
	}
	if err := os.Mkdir(filepath.Dir(name), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.Link(temporary, name); err != nil && !errors.Is(err, fs.ErrExist) {
		return os.Rename(temporary, name) // a file system without hard links
	}
	return nil
}
