package worktree_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forage"
	"forage/internal/testgit"
	"forage/internal/workspace"
	"forage/internal/workspace/worktree"
)

// site is a user's repository and the folders of Forage.
type site struct {
	repo   *testgit.Repo
	places workspace.Places
}

func newSite(t *testing.T) site {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	repo := testgit.Init(t, base)
	repo.Commit("a.txt", "one\n")
	return site{repo, workspace.PlacesIn(filepath.Join(base, "state"), filepath.Join(base, "run"))}
}

func (s site) request(name string) workspace.Request {
	return workspace.Request{
		Sandbox: name, Name: workspace.Main, Path: s.repo.Dir, Target: forage.WorkspacePath, Places: s.places,
		Ours: []string{filepath.Dir(s.places.Trees)},
	}
}

func (s site) provider() worktree.Provider { return worktree.Provider{Places: s.places} }

// make plans and makes a worktree.
func (s site) make(t *testing.T, request workspace.Request) forage.Workspace {
	t.Helper()
	w, err := s.provider().Plan(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.provider().Create(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestTheHostsWorktreeIsWhole(t *testing.T) {
	s := newSite(t)
	w := s.make(t, s.request("one"))
	tree := *s.repo
	tree.Dir = w.Path
	if got := tree.Git("status", "--porcelain", "--branch"); got != "## forage-one" {
		t.Errorf("status in the worktree: %q", got)
	}
	if got := s.repo.Git("worktree", "list", "--porcelain"); !strings.Contains(got, "worktree "+w.Path+"\n") {
		t.Errorf("git worktree list has no %s:\n%s", w.Path, got)
	}
	if got := s.repo.Git("status", "--porcelain"); got != "" {
		t.Errorf("the user's own working folder changed: %q", got)
	}
	tree.Commit("b.txt", "two\n")
	tree.Git("fsck", "--strict")
	if _, err := os.Stat(filepath.Join(s.places.Scratch)); err == nil {
		entries, _ := os.ReadDir(s.places.Scratch)
		if len(entries) > 0 {
			t.Errorf("left in the scratch folder: %v", entries)
		}
	}
}
