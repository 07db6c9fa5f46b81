package workspace_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"forage"
	"forage/internal/workspace"
)

// TestALockIsNotWaitedForForEver: whoever has it may have been stopped, and the user has to know.
func TestALockIsNotWaitedForForEver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	synctest.Test(t, func(t *testing.T) {
		unlock, err := workspace.Lock(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := workspace.Lock(t.Context(), path)
			ended <- err
		}()
		select {
		case err = <-ended:
			if !errors.Is(err, forage.ErrRefused) || !strings.Contains(forage.Hint(err), path) {
				t.Errorf("it is given up with %v (%s)", err, forage.Hint(err))
			}
		case <-time.After(time.Hour):
			t.Error("it is waited for")
		}
		unlock()
		if unlock, err = workspace.Lock(t.Context(), path); err != nil {
			t.Errorf("when nobody has it: %v", err)
		} else {
			unlock()
		}
	})
}
