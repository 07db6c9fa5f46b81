package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"forage"
)

// maxWindow is the memory that a zstd frame may ask its reader to keep (`zstd --long=27`).
const maxWindow = 128 << 20

// compression names what a stream beginning with head is compressed with: "gzip",
// "zstd", "xz", "bzip2", or "" for none of them. Media types are not believed.
func compression(head []byte) string {
	for _, c := range []struct{ name, magic string }{
		{"gzip", "\x1f\x8b"}, {"zstd", "\x28\xb5\x2f\xfd"}, {"xz", "\xfd7zX"}, {"bzip2", "BZh"},
	} {
		if bytes.HasPrefix(head, []byte(c.magic)) {
			return c.name
		}
	}
	return ""
}

// decompress gives the tar in r.
func decompress(r io.Reader) (io.ReadCloser, error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	head, err := buffered.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch c := compression(head); c {
	case "":
		return io.NopCloser(buffered), nil
	case "gzip":
		return gzip.NewReader(buffered)
	case "zstd":
		d, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	default:
		return nil, fmt.Errorf("compressed with %s, which images don't use", c)
	}
}

// hashing counts and hashes what is read, fails over limit and when ctx ends.
type hashing struct {
	ctx   context.Context
	r     io.Reader
	sum   hash.Hash
	limit int64 // of bytes still to come
}

func newHashing(ctx context.Context, r io.Reader, limit int64) *hashing {
	return &hashing{ctx: ctx, r: r, sum: sha256.New(), limit: limit}
}

var errOverLimit = errors.New("larger than it may be")

func (h *hashing) Read(p []byte) (int, error) {
	if err := context.Cause(h.ctx); err != nil {
		return 0, err
	}
	n, err := h.r.Read(p)
	h.sum.Write(p[:n])
	if h.limit -= int64(n); h.limit < 0 {
		return n, errOverLimit
	}
	return n, err
}

// check compares what was read with its digest.
func (h *hashing) check(what string, want v1.Hash) error {
	if got := fmt.Sprintf("%x", h.sum.Sum(nil)); got != want.Hex {
		return badImage("%s is sha256:%s, want %s", what, got, want)
	}
	return nil
}

// applyLayer applies a layer, and verifies it. An error leaves the tree half done: it is to be
// thrown away.
func (t *tree) applyLayer(ctx context.Context, l layer, left *int64) error {
	blob, err := l.open()
	if err != nil {
		return badImage("%w", err)
	}
	defer blob.Close()
	packed := newHashing(ctx, blob, l.size)
	plain, err := decompress(packed)
	if err != nil {
		return badImage("%w", err)
	}
	defer plain.Close()
	content := newHashing(ctx, plain, *left)
	if err := t.applyTar(content); err != nil {
		return err
	}
	// What follows the tar's end counts in both digests.
	for _, rest := range []io.Reader{content, packed} {
		if _, err := io.Copy(io.Discard, rest); err != nil {
			return badImage("%w", err)
		}
	}
	*left = content.limit
	if l.blob.Hex != "" {
		if err := packed.check("blob", l.blob); err != nil {
			return err
		}
	}
	return content.check("content", l.diffID)
}

// applyTar applies every entry of an archive.
func (t *tree) applyTar(r io.Reader) error {
	entries := tar.NewReader(r)
	for {
		h, err := entries.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return badImage("%w", err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			h.Name = "." // an entry about no file
		}
		if err := t.apply(h, entries); err != nil {
			// Says what could not be applied, and whether the image is to blame.
			for _, ours := range []error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOSYS} {
				if errors.Is(err, ours) {
					return forage.Errorf(forage.ErrStart, "entry %q: %w", h.Name, err)
				}
			}
			return badImage("entry %q: %w", h.Name, err)
		}
	}
}
