package work

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forage"
	"forage/internal/sandbox/plan"
	"forage/internal/testdir"
)

// Places for parts are made in trees that Forage made, through no link that came with the branch.
func TestRoomIsMade(t *testing.T) {
	root := t.TempDir()
	tree, outside := filepath.Join(root, "tree"), filepath.Join(root, "outside")
	for _, dir := range []string{tree, outside, filepath.Join(root, "lib")} {
		testdir.Must(t, os.Mkdir(dir, 0o755))
	}
	testdir.Must(t, os.Symlink("../outside", filepath.Join(tree, "link")))
	testdir.Must(t, os.Symlink(".", filepath.Join(tree, "here")))
	for target, want := range map[string]string{
		"/workspace/.beads": "", "/workspace/a/b/c": "", "/workspace/link": "link", "/workspace/link/x": "link", "/workspace/here/x": "is a link",
	} {
		p := forage.Plan{Workspace: forage.Workspace{Name: "main", Mode: forage.WorkspaceWorktree, Path: tree, Target: "/workspace"}}
		p.Spec.Mounts = []forage.Mount{{Source: tree, Target: "/workspace"}, {Source: filepath.Join(root, "lib"), Target: target}}
		err := MakeRoom(p)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", target, err, want)
		}
		if want == "" {
			if err := plan.PlainFolder(tree, filepath.Join(tree, strings.TrimPrefix(target, "/workspace/"))); err != nil {
				t.Errorf("%s: %v", target, err)
			}
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("outside of the tree there is %v (%v)", entries, err)
	}
}
