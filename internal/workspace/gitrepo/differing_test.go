package gitrepo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Of a folder that the agent has closed, git lists nothing: what is in it is not known to be saved.
func TestFoldersThatGitCannotLookIntoAreWork(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root looks into every folder")
	}
	b := newBox(t, newHost(t), "box")
	closed := []string{"closed", "deep/odd': name"}
	for _, name := range closed {
		folder := filepath.Join(b.work.Path, name)
		write(t, filepath.Join(folder, "work"), "nowhere else\n")
		must(t, os.Chmod(folder, 0))
		t.Cleanup(func() { _ = os.Chmod(folder, 0o700) })
	}
	if diff := cmp.Diff([]string{"closed/", "deep/odd': name/"}, b.unsaved().Uncommitted); diff != "" {
		t.Errorf("uncommitted (-want +got):\n%s", diff)
	}
	_, kept := b.keep()
	if len(kept) != 1 {
		t.Fatalf("kept: %+v", kept)
	}
	for _, name := range closed {
		folder := filepath.Join(kept[0].Folder, "tree", name)
		must(t, os.Chmod(folder, 0o700))
		if text, err := os.ReadFile(filepath.Join(folder, "work")); err != nil || string(text) != "nowhere else\n" {
			t.Errorf("%s was not kept: %q, %v", name, text, err)
		}
	}
}
