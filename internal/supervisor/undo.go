package supervisor

import (
	"errors"
	"fmt"
	"time"
)

// undoLimit is how long one step may take. All of them end by themselves well before; one that does
// not, on a dead disk or by a mistake of ours, must not keep the rest from being taken back, nor
// the supervisor from ending, which ends what it left.
const undoLimit = time.Minute

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

// run takes everything back once; a failing step does not stop the others.
func (u *undo) run() error {
	var errs []error
	for i := len(u.steps) - 1; i >= 0; i-- {
		errs = append(errs, u.steps[i].run())
	}
	u.steps = nil
	return errors.Join(errs...)
}

func (s undoStep) run() error {
	done := make(chan error, 1)
	go func() { done <- s.do() }()
	limit := time.NewTimer(undoLimit)
	defer limit.Stop()
	select {
	case err := <-done:
		return err
	case <-limit.C:
		return fmt.Errorf("ending %s took longer than %v, and was left behind", s.what, undoLimit)
	}
}
