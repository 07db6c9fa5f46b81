package autorun_test

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage/internal/workspace/autorun"
)

// TestRenamesElsewhere: while others rename their files, links that stay within the tree are not taken for links out of it, and
// what is behind one is still found. The kernel gives up on ".." as soon as anything on the machine is renamed.
func TestRenamesElsewhere(t *testing.T) {
	root, elsewhere := t.TempDir(), t.TempDir()
	plant(t, root, "docs/x", "a/c -> ../docs", "x/ok -> ../docs/../docs", "x/y", "conf/claude/settings.json", ".claude -> x/../conf/claude", ".envrc -> x/../conf/envrc", "conf/envrc")
	want := []string{"shell .envrc", "agent .claude", "agent conf/claude/settings.json"}
	from, to := filepath.Join(elsewhere, "from"), filepath.Join(elsewhere, "to")
	if err := os.WriteFile(from, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := autorun.Take(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var others sync.WaitGroup
	defer others.Wait()
	defer close(done)
	others.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				_, _ = os.Rename(from, to), os.Rename(to, from)
			}
		}
	})
	for range 300 {
		if diff := cmp.Diff(want, scan(t, root, nil)); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff([]string{}, scan(t, root, before)); diff != "" {
			t.Fatalf("with itself as baseline: %s", diff)
		}
	}
}

// TestTwoLinksToOneFolder: what is in it is of the worse kind, whichever of the links was met first.
func TestTwoLinksToOneFolder(t *testing.T) {
	root := t.TempDir()
	plant(t, root, "tools/x", "a/.claude -> ../tools", "b/.vscode -> ../tools", "c/.husky -> ../tools")
	for range 50 {
		if found := scan(t, root, nil); !slices.Contains(found, "editor tools/x") {
			t.Fatalf("found are %q", found)
		}
	}
}
