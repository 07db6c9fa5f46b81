package gitrepo

import (
	"context"
	"errors"
	"testing"

	"forage"
	"forage/internal/testgit"
)

// TestStartThatIsInterrupted: it is not said that a branch isn't there, if nobody has found out.
func TestStartThatIsInterrupted(t *testing.T) {
	t.Parallel()
	repository := testgit.Init(t, t.TempDir())
	repository.Commit("a", "one\n")
	r, err := Open(t.Context(), repository.Dir)
	if err != nil {
		t.Fatal(err)
	}
	interrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	if _, err := StartOf(ctx, r, "nosuch", t.TempDir()); !errors.Is(err, forage.ErrUsage) {
		t.Errorf("of a branch that isn't there it is said: %v", err)
	}
	cancel(interrupted)
	if _, err := StartOf(ctx, r, "HEAD", t.TempDir()); !errors.Is(err, interrupted) {
		t.Errorf("when it is interrupted it is said: %v", err)
	}
}
