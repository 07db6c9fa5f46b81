package jjrepo

import (
	"os"
	"path/filepath"
	"testing"

	"forage"
)

// TestKeepWholeSaysWhatItKept: what was moved before something can't be is said all the same, or nobody would know of it.
func TestKeepWholeSaysWhatItKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "box", "main")
	if err := os.MkdirAll(filepath.Join(dir, gitFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	kept, err := KeepWhole(forage.Workspace{Mode: forage.WorkspaceJJ, Path: "/proc/self", Repository: &forage.Repository{Dir: dir}})
	if err == nil || len(kept) != 1 {
		t.Fatalf("kept %v, %v; want the metadata, and an error", kept, err)
	}
	if _, err := os.Stat(filepath.Join(kept[0].Folder, gitFolder)); err != nil {
		t.Error(err)
	}
}
