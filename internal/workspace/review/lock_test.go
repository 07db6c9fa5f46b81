package review

import (
	"errors"
	"sync"
	"testing"
)

// Reviews of one part at the same time don't get into one another's way, nor lose what is remembered.
func TestReviewsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	b.write(b.work.Dir, "a", "2\n")
	b.mustApply(Options{})
	b.write(b.work.Dir, "a", "3\n")
	failed := make([]error, 6)
	var all sync.WaitGroup
	for i := range failed {
		all.Go(func() {
			s, err := Open(t.Context(), b.subject)
			if err != nil {
				failed[i] = err
				return
			}
			if len(s.Changes) != 1 {
				failed[i] = errors.New("it shows something else")
			}
			failed[i] = errors.Join(failed[i], s.MarkShown(t.Context()), s.Close())
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	if s := b.open(); len(s.state.Applied) != 1 || s.state.Shown != s.Tree {
		t.Errorf("remembered: %+v", s.state)
	}
}
