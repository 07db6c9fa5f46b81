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
	seen  stamp
	value Secret
}

// stamp is what tells one state of a file from another.
type stamp struct {
	dev, ino uint64
	size     int64
	modified time.Time
	changed  syscall.Timespec
}

func (f *file) Get(context.Context) (Secret, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if info, err := os.Stat(f.path); err == nil && f.value.Reveal() != "" && stampOf(info) == f.seen {
		return f.value, nil
	}
	value, seen, err := readFile(f.path)
	if err != nil {
		f.value, f.seen = Secret{}, stamp{}
		return Secret{}, fmt.Errorf("reading %s: %w", f.path, err)
	}
	f.value, f.seen = value, seen
	return value, nil
}

func readFile(path string) (Secret, stamp, error) {
	// Without waiting: a FIFO would hold a request up for ever.
	in, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return Secret{}, stamp{}, forage.WithHint(err, "put it there, readable by you alone, or name another source")
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return Secret{}, stamp{}, err
	}
	if !info.Mode().IsRegular() {
		return Secret{}, stamp{}, errors.New("it is not a file")
	}
	text, err := io.ReadAll(io.LimitReader(in, valueMax+3))
	if err != nil {
		return Secret{}, stamp{}, errors.New("it can't be read")
	}
	value, err := clean(text)
	return value, stampOf(info), err
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), modified: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.dev, s.ino, s.changed = uint64(sys.Dev), sys.Ino, sys.Ctim
	}
	return s
}
