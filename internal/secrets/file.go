package secrets

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"forage"
	"forage/internal/hostile"
)

// file reads a value from a file, each time.
type file struct{ path string }

func (f file) Get(context.Context) (Secret, error) {
	text, _, err := hostile.ReadFile(f.path, 0, valueMax+2)
	if errors.As(err, new(syscall.Errno)) {
		err = forage.WithHint(err, "put it there, readable by you alone, or name another source")
	}
	var value Secret
	if err == nil {
		value, err = clean(text)
	}
	if err != nil {
		return Secret{}, fmt.Errorf("reading %s: %w", f.path, err)
	}
	return value, nil
}
