package jjrepo

import (
	"path/filepath"
	"strings"
	"testing"

	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/workspacetest"
)

// TestFinishedBelievesNoHeader: what looks like a parent further down in a commit that was written inside is none. It would be taken
// for the work, whatever it says: git reads an option where it expects a revision.
func TestFinishedBelievesNoHeader(t *testing.T) {
	u := workspacetest.NewUser(t)
	dir := u.Repository(filepath.Join(workspacetest.Dir(t), "repo"))
	r, err := gitrepo.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Shadow(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	parent, tree := u.Git(dir, "rev-parse", "HEAD"), u.Git(dir, "rev-parse", "HEAD^{tree}")
	const who = "author a <a> 0 +0000\ncommitter a <a> 0 +0000\n"
	for name, test := range map[string]struct{ commit, work string }{
		"a parent":                {"tree " + tree + "\nparent " + parent + "\n" + who + "\n", parent},
		"after the committer":     {"tree " + tree + "\n" + who + "parent --all\n\n", ""},
		"in a signature":          {"tree " + tree + "\n" + who + "gpgsig x\n parent --all\n\n", ""},
		"in a parent's neighbour": {"tree " + tree + "\nparent " + parent + "\n" + who + "gpgsig x\n parent --all\n\n", parent},
	} {
		out, err := s.Git(t.Context(), gitrepo.Call{Args: []string{"hash-object", "-t", "commit", "-w", "--literally", "--stdin"}, Stdin: []byte(test.commit)})
		if err != nil {
			t.Fatal(err)
		}
		at := strings.TrimSpace(string(out))
		if work, dirty, err := finished(t.Context(), s, at); err != nil || work != test.work || dirty != at {
			t.Errorf("%s: the work is %q, the copy of the files %q (%v), want %q, %q", name, work, dirty, err, test.work, at)
		}
	}
}
