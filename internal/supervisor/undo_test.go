package supervisor

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// A step that does not end, and one that fails, are named and keep no other from being taken.
func TestUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := make(chan string, 10)
		failed, end := errors.New("failed"), make(chan struct{})
		defer close(end)
		var u undo
		for what, do := range map[string]func() error{
			"1": func() error { return nil }, "2": func() error { return failed }, "3": func() error { <-end; return nil }, "4": func() error { return nil },
		} {
			u.add("step "+what, func() error {
				taken <- what
				return do()
			})
		}
		slices.SortFunc(u.steps, func(a, b undoStep) int { return strings.Compare(a.what, b.what) })
		err := u.run()
		if got := <-taken + <-taken + <-taken + <-taken; got != "4321" {
			t.Errorf("taken back: %s", got)
		}
		if !errors.Is(err, failed) || !strings.Contains(err.Error(), "ending step 3 has not answered") {
			t.Errorf("got %v", err)
		}
		if err := u.run(); err != nil || len(taken) != 0 {
			t.Errorf("taken back again: %v", err)
		}
	})
}
