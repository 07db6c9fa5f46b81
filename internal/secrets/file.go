package secrets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"forage"
)

// file reads a value from a file, again when it has changed.
type file struct {
	path string

	mu    sync.Mutex
	seen  Stamp
	value Secret
}

// Stamp is what tells one state of a file from another.
type Stamp struct {
	dev, ino uint64
	size     int64
	modified time.Time
	changed  syscall.Timespec
}

func (f *file) Get(context.Context) (Secret, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if info, err := os.Stat(f.path); err == nil && f.value.Reveal() != "" && StampOf(info) == f.seen {
		return f.value, nil
	}
	value, seen, err := readFile(f.path)
	if err != nil {
		f.value, f.seen = Secret{}, Stamp{}
		return Secret{}, fmt.Errorf("reading %s: %w", f.path, err)
	}
	f.value, f.seen = value, seen.Settled()
	return value, nil
}

func readFile(path string) (Secret, Stamp, error) {
	// Without waiting: a FIFO would hold a request up for ever.
	in, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return Secret{}, Stamp{}, forage.WithHint(err, "put it there, readable by you alone, or name another source")
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return Secret{}, Stamp{}, err
	}
	if !info.Mode().IsRegular() {
		return Secret{}, Stamp{}, errors.New("it is not a file")
	}
	text, err := io.ReadAll(io.LimitReader(in, valueMax+3))
	if err != nil {
		return Secret{}, Stamp{}, errors.New("it can't be read")
	}
	value, err := clean(text)
	return value, StampOf(info), err
}

// settling is how long a file has to have been left alone for its stamp to tell it from what is
// written to it next: the times of files are as coarse as the kernel's clock tick, and on some file
// systems as seconds.
const settling = 2 * time.Second

// Settled is the stamp to keep of a file that was read after it: that of no file, if it was changed
// a moment before.
func (s Stamp) Settled() Stamp {
	if time.Since(time.Unix(s.changed.Unix())) < settling {
		return Stamp{}
	}
	return s
}

// StampOf is the stamp of a file that info tells about.
func StampOf(info fs.FileInfo) Stamp {
	s := Stamp{size: info.Size(), modified: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.dev, s.ino, s.changed = uint64(sys.Dev), sys.Ino, sys.Ctim
	}
	return s
}
