package workspace_test

import (
	"errors"
	"path/filepath"
	"testing"

	"forage"
	"forage/internal/workspace"
)

// TestCopyOfWhatGrows: a file that has no bytes when it is looked at, and more than the limit when
// it is read, as one to which somebody inside is writing without an end. Files of proc(5) are
// always so.
func TestCopyOfWhatGrows(t *testing.T) {
	if err := workspace.CopyFile("/proc/self/status", filepath.Join(t.TempDir(), "copy"), 8); !errors.Is(err, forage.ErrUnsupported) {
		t.Errorf("a copy of more than 8 bytes: %v", err)
	}
	if err := workspace.CopyFile("/proc/self/status", filepath.Join(t.TempDir(), "copy"), 1<<20); err != nil {
		t.Error(err)
	}
}
