package work

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forage"
	"forage/internal/sandbox/plan"
	"forage/internal/supervisor"
	"forage/internal/testdir"
	"forage/internal/testgit"
	"forage/internal/workspace"
)

// TestPatternsHoldNoSnapshotUp: who looks for what is to be left out gives a pattern up that takes
// git time without end.
func TestPatternsHoldNoSnapshotUp(t *testing.T) {
	if !testdir.Soak() {
		return // git takes seconds until it is stopped
	}
	dir := t.TempDir()
	k := &Keeper{Host: &plan.Host{Workspaces: supervisor.Workspaces{Places: workspace.PlacesIn(dir, dir)}}}
	repo := testgit.Init(t, t.TempDir())
	repo.Commit("a.txt", "a\n")
	deep := filepath.Join(repo.Dir, strings.Repeat("a/", 40))
	slow := strings.Repeat("a*/**/", 10) + "b\n"
	if err := errors.Join(
		os.MkdirAll(deep, 0o700), os.WriteFile(filepath.Join(deep, "f"), nil, 0o600),
		os.WriteFile(filepath.Join(repo.Dir, ".gitignore"), []byte(slow), 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err := k.ignoredBy(t.Context(), forage.Workspace{
		Path: repo.Dir, Base: repo.Git("rev-parse", "HEAD"), Repository: &forage.Repository{Store: filepath.Join(repo.Dir, ".git")},
	})
	if !errors.Is(err, forage.ErrRefused) || !strings.Contains(forage.Hint(err), ".gitignore") {
		t.Errorf("%v (%s)", err, forage.Hint(err))
	}
}
