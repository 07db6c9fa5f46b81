package supervisor

import (
	"context"
	"errors"
	"slices"

	"forage/internal/deadline"
)

// undo is what has to be taken back, in reverse order, when a later step fails
// or the sandbox ends.
type undo struct {
	steps []undoStep
}

type undoStep struct {
	what string
	do   func() error
}

func (u *undo) add(what string, do func() error) { u.steps = append(u.steps, undoStep{what, do}) }

// run takes everything back once. A step that fails, or does not end, does not stop the others: what
// is left of it ends with the supervisor.
func (u *undo) run() error {
	var errs []error
	for _, step := range slices.Backward(u.steps) {
		ctx, cancel := deadline.Within(context.Background(), deadline.Answer, "ending "+step.what)
		errs = append(errs, deadline.Do(ctx, step.do))
		cancel()
	}
	u.steps = nil
	return errors.Join(errs...)
}
