package autorun_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage/internal/workspace/autorun"
)

// What a repository's own folder has executed is a finding wherever it is: behind more sections for branches than are read, and in
// the git repository that jj has within its own.
func TestChangedMetadata(t *testing.T) {
	for _, tc := range []struct{ at, file, before, after string }{
		{"lib/.git", "config", "[core]\n", "[core]\n[branch \"x\"]\n" + strings.Repeat("\tmerge = refs/heads/xxxxxxxxxxxxxxxxx\n", 40_000) + "[core]\n\tfsmonitor = evil\n"},
		{"lib/.jj", "repo/store/git/config", "[core]\n", "[core]\n\tsshCommand = evil\n"},
		{"lib/.jj", "repo/store/git/hooks/pre-push", "", "evil"},
		{"lib/.jj", "repo/store/git_target", "git", "../../../evil"},
	} {
		root := t.TempDir()
		file := filepath.Join(root, tc.at, tc.file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if tc.before != "" {
			if err := os.WriteFile(file, []byte(tc.before), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		before, err := autorun.Take(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(tc.after), 0o644); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"repository " + tc.at}, scan(t, root, before)); diff != "" {
			t.Errorf("%s: %s", tc.file, diff)
		}
	}
}
