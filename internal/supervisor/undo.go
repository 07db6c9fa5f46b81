package supervisor

import "errors"

// undo is what has to be taken back, in reverse order, when a later step fails
// or the sandbox ends.
type undo struct {
	steps []func() error
}

func (u *undo) add(step func() error) { u.steps = append(u.steps, step) }

// run takes everything back once; a failing step does not stop the others.
func (u *undo) run() error {
	var errs []error
	for i := len(u.steps) - 1; i >= 0; i-- {
		errs = append(errs, u.steps[i]())
	}
	u.steps = nil
	return errors.Join(errs...)
}
