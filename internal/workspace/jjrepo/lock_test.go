package jjrepo

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
)

func TestWaitingForALockCanBeGivenUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if _, err := lock(ctx, path); !errors.Is(err, enough) {
		t.Errorf("a lock that somebody has: %v, want %v", err, enough)
	}
	unlock()
	again, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	again()
}
