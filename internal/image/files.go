package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// files is a read-only set of named files: a folder or a tar on disk.
type files interface {
	// open gives a file and its size; fs.ErrNotExist when there is none.
	open(name string) (io.ReadCloser, int64, error)
	io.Closer
}

// openFiles opens a folder, or a tar that is not compressed.
func openFiles(name string) (files, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not hang us
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if info.IsDir() {
		root, err := os.OpenRoot(name)
		return folder{root}, errors.Join(err, f.Close())
	}
	if !info.Mode().IsRegular() {
		return nil, errors.Join(errors.New("neither a folder nor a file"), f.Close())
	}
	a, err := indexTar(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return a, nil
}

// folder is files in a folder; links may lead around in it, not out of it.
type folder struct{ root *os.Root }

func (d folder) open(name string) (io.ReadCloser, int64, error) {
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%q is not a file", name)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

func (d folder) Close() error { return d.root.Close() }

// tarFile is files in a tar, found by the place of their bytes.
type tarFile struct {
	f     *os.File
	parts map[string]part
}

type part struct {
	offset, size int64
	link         string // a symbolic link's target: docker save shares layers by it
}

// maxParts bounds the files of an image archive: three per layer, and indexes.
const maxParts = 16 * maxLayers

func indexTar(f *os.File) (*tarFile, error) {
	a := &tarFile{f: f, parts: map[string]part{}}
	if err := checkPlain(f); err != nil {
		return nil, err
	}
	r := tar.NewReader(f)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return a, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading as a tar: %w", err)
		}
		if len(a.parts) >= maxParts {
			return nil, errors.New("too many files for an image archive")
		}
		name := path.Clean(strings.TrimPrefix(h.Name, "/"))
		switch h.Typeflag {
		case tar.TypeReg:
			at, err := f.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, err
			}
			a.parts[name] = part{offset: at, size: h.Size}
		case tar.TypeSymlink, tar.TypeLink:
			target := h.Linkname
			if h.Typeflag == tar.TypeSymlink {
				target = path.Join(path.Dir(name), target)
			}
			a.parts[name] = part{link: path.Clean(target)}
		}
	}
}

// checkPlain refuses a compressed archive with its name.
func checkPlain(f *os.File) error {
	head := make([]byte, 4)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return err
	}
	if c := compression(head[:n]); c != "" {
		return fmt.Errorf("the archive is compressed with %s: decompress it first", c)
	}
	return nil
}

func (a *tarFile) open(name string) (io.ReadCloser, int64, error) {
	p, ok := a.parts[path.Clean(name)]
	if ok && p.link != "" {
		p, ok = a.parts[p.link]
	}
	if !ok || p.link != "" {
		return nil, 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return io.NopCloser(io.NewSectionReader(a.f, p.offset, p.size)), p.size, nil
}

func (a *tarFile) Close() error { return a.f.Close() }

// readFile reads a small file whole.
func readFile(from files, name string, limit int64) ([]byte, error) {
	f, _, err := from.open(name)
	if err != nil {
		return nil, err
	}
	raw, err := readAll(f, limit)
	if err != nil {
		err = fmt.Errorf("reading %q: %w", name, err)
	}
	return raw, errors.Join(err, f.Close())
}
