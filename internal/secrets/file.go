package secrets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"forage"
)

// file reads a value from a file, each time.
type file struct{ path string }

func (f file) Get(context.Context) (Secret, error) {
	value, err := readFile(f.path)
	if err != nil {
		return Secret{}, fmt.Errorf("reading %s: %w", f.path, err)
	}
	return value, nil
}

func readFile(path string) (Secret, error) {
	// Without waiting: a FIFO would hold a request up for ever.
	in, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return Secret{}, forage.WithHint(err, "put it there, readable by you alone, or name another source")
	}
	defer in.Close()
	if info, err := in.Stat(); err != nil {
		return Secret{}, err
	} else if !info.Mode().IsRegular() {
		return Secret{}, errors.New("it is not a file")
	}
	text, err := io.ReadAll(io.LimitReader(in, valueMax+3))
	if err != nil {
		return Secret{}, errors.New("it can't be read")
	}
	return clean(text)
}
