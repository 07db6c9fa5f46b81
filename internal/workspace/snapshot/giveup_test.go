package snapshot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"forage"
)

// TestNobodyReadsOnInVain: when a folder can't be kept, whoever reads a file of it is not waited for to the file's end.
func TestNobodyReadsOnInVain(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "a"), []byte("a\n"), 0o600),
		os.Mkdir(filepath.Join(dir, "b"), 0o700),
		os.WriteFile(filepath.Join(dir, "b", strings.Repeat("x", 100)), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	in := &intake{ctx: ctx, giveUp: cancel, listing: true, now: func() time.Time { // asked for each file that is read
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Minute):
			t.Error("it goes on")
		}
		return time.Now()
	}}
	in.held.Store(maxHeld - 50) // there is no room for the long name
	if _, err := in.take(Folder{Path: dir}, nil, nil); !errors.Is(err, forage.ErrRefused) || !strings.Contains(err.Error(), "names") {
		t.Errorf("taken in: %v", err)
	}
}
