package sandbox

import (
	"context"
	"strings"
	"testing"
	"time"

	"forage/internal/testdir"
)

// TestWhoWaitsForASandboxIsToldSo: another command may be at work on it, or have been stopped.
func TestWhoWaitsForASandboxIsToldSo(t *testing.T) {
	s := testService(t)
	unlock, err := s.Host.Store.Lock(t.Context(), "box")
	testdir.Must(t, err)
	defer unlock()
	told := make(chan string, 1)
	s.Notify = func(text string) { told <- text }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Stop(ctx, "box") }()
	select {
	case text := <-told:
		if !strings.Contains(text, "box") {
			t.Errorf("told is %q", text)
		}
	case <-time.After(5 * time.Minute):
		t.Error("nothing is said")
	}
	cancel()
	testdir.Fails(t, "", context.Canceled, <-ended)
}
