package secrets

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"forage"
	"forage/internal/deadline"
	"forage/internal/hostexec"
)

// command is a program of the host that prints a value.
type command struct {
	argv []string
	env  []string
}

func (c command) read(ctx context.Context) (Secret, error) {
	out, err := hostexec.Run(ctx, hostexec.Command{Argv: c.argv, Env: c.env, Timeout: deadline.Progress, Output: valueMax + 3})
	if err != nil {
		return Secret{}, c.explain(err)
	}
	value, err := clean(out.Stdout)
	if err != nil {
		return Secret{}, fmt.Errorf("what %s prints: %w", c.name(), err)
	}
	return value, nil
}

// name is the program's, without arguments: those may be secret too.
func (c command) name() string { return filepath.Base(c.argv[0]) }

// explain says why the command failed, without what it wrote: that may be the value.
func (c command) explain(err error) error {
	var exit interface {
		error
		ExitCode() int // -1: killed
	}
	switch {
	case errors.Is(err, hostexec.ErrNoProgram):
		return forage.WithHint(fmt.Errorf("the command %s is not in the system's folders", c.name()), "write its absolute path")
	case errors.Is(err, context.DeadlineExceeded):
		return forage.WithHint(fmt.Errorf("the command %s takes longer than %s", c.name(), deadline.Progress), "it must not wait for input")
	case errors.As(err, &exit):
		return forage.WithHint(fmt.Errorf("the command %s failed with exit code %d", c.name(), exit.ExitCode()), "run it yourself: it says why")
	}
	return fmt.Errorf("the command %s can't be run: %w", c.name(), err)
}
