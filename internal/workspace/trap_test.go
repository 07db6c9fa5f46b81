package workspace_test

import (
	"os"
	"path/filepath"
	"testing"

	"forage"
	"forage/internal/testgit"
	"forage/internal/workspace"
	"forage/internal/workspace/clone"
	"forage/internal/workspace/direct"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/worktree"
)

// TestNothingThatARepositoryNamesIsExecuted goes through the life of a workspace of a repository
// whose configuration, attributes and hooks name programs wherever git knows a place for one.
func TestNothingThatARepositoryNamesIsExecuted(t *testing.T) {
	for name, make := range map[string]func(workspace.Places) workspace.Provider{
		"direct":       func(p workspace.Places) workspace.Provider { return direct.Provider{Places: p} },
		"git-worktree": func(p workspace.Places) workspace.Provider { return worktree.Provider{Places: p} },
		"clone":        func(p workspace.Places) workspace.Provider { return clone.Provider{Places: p} },
	} {
		t.Run(name, func(t *testing.T) {
			repo := trapped(t)
			ran := repo.Trap(t, filepath.Join(repo.Dir, ".git"))
			base := t.TempDir()
			places := workspace.PlacesIn(filepath.Join(base, "state"), filepath.Join(base, "run"))
			provider := make(places)
			w, err := provider.Plan(t.Context(), workspace.Request{
				Sandbox: "box", Name: workspace.Main, Path: repo.Dir, Target: forage.WorkspacePath, Home: "/nonexistent", Places: places,
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := provider.Create(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			if _, err := provider.Update(t.Context(), w); err != nil {
				t.Error(err)
			}
			if _, err := provider.Status(t.Context(), w); err != nil {
				t.Error(err)
			}
			if _, err := gitrepo.Keep(t.Context(), w, "box", places.Scratch); err != nil {
				t.Error(err)
			}
			if _, err := provider.Remove(t.Context(), w, workspace.RemoveForced); err != nil {
				t.Error(err)
			}
			if got := ran(); got != "" {
				t.Errorf("executed:\n%s", got)
			}
			if _, _, err := repo.Run(nil, "status"); ran() == "" {
				t.Errorf("the trap does not work: the user's own git status executed nothing (%v)", err)
			}
		})
	}
}

// trapped is a repository with files that filters apply to, a populated submodule and changes that
// aren't committed.
func trapped(t *testing.T) *testgit.Repo {
	t.Helper()
	dir := t.TempDir()
	sub := testgit.Init(t, t.TempDir())
	sub.Commit("sub.txt", "sub\n")
	repo := testgit.Init(t, dir)
	repo.Commit(".gitattributes", "*.txt filter=trap diff=trap merge=trap\n")
	repo.Commit("a.txt", "one\n")
	repo.Git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub.Dir, "libs/sub")
	repo.Git("commit", "-q", "-m", "submodule")
	if err := os.WriteFile(filepath.Join(repo.Dir, "a.txt"), []byte("changed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return repo
}
