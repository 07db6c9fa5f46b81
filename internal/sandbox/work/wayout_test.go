package work

import (
	"strings"
	"testing"

	"forage/internal/workspace"
)

// TestWayOutOfASubmodule: commits in one are not sent to where diff and apply would show nothing.
func TestWayOutOfASubmodule(t *testing.T) {
	w := Work{Path: "/home/me/my app", Branch: "forage-fix", Status: workspace.Status{
		Commits: []workspace.Commit{{ID: "1234567890ab", Subject: "two"}}, CommitsCount: 1, Submodules: []string{"lib"}, InSubmodules: 1,
	}}
	const command = "`git -C '/home/me/my app/lib' reset forage-fix` moves the branch there to the commits"
	if way := wayOut("fix", []Work{w}); !strings.HasPrefix(way, command) || strings.Contains(way, "apply") {
		t.Errorf("the way out is %s", way)
	}
	if text := w.Text(); !strings.Contains(text, "submodules: lib") {
		t.Errorf("what would be lost is %s", text)
	}
	w.CommitsCount = 2
	if way := wayOut("fix", []Work{w}); !strings.HasPrefix(way, command) || !strings.Contains(way, "apply fix") || !strings.Contains(way, "push the branch forage-fix") {
		t.Errorf("with commits of the folder's own it is %s", way)
	}
}
