package direct_test

import (
	"path/filepath"
	"testing"

	"forage/internal/testdir"
	"forage/internal/workspace"
	"forage/internal/workspace/direct"
	"forage/internal/workspace/workspacetest"
)

// TestJJ puts the user's own folder with a jj repository to the suite: of jj alone, and shared with
// git.
func TestJJ(t *testing.T) {
	t.Parallel()
	for name, arg := range map[string]string{"alone": "--no-colocate", "colocated": "--colocate"} {
		if name == "colocated" && !testdir.Soak() {
			continue // as a git repository is, once more with jj
		}
		t.Run(name, func(t *testing.T) {
			workspacetest.Run(t, workspacetest.Subject{
				New: func(places workspace.Places) workspace.Provider { return direct.Provider{Places: places} }, JJ: true,
				Source: func(u *workspacetest.User, dir string) string {
					return u.JJ(filepath.Join(dir, "repo"), arg)
				},
				Refuses:   func(name string) bool { return name == "jj with conflicts" },
				UsualOnly: name == "colocated",
				Few:       true,
				Turn:      1,
			})
		})
	}
}

// TestOtherHeads has a head in a repository that git and jj share, which git is not at and no
// branch leads to.
func TestOtherHeads(t *testing.T) {
	t.Parallel()
	u := workspacetest.NewUser(t)
	repo := u.JJ(filepath.Join(workspacetest.Dir(t), "repo"), "--colocate")
	base := workspacetest.Dir(t)
	p := direct.Provider{Places: workspace.PlacesIn(filepath.Join(base, "state"), filepath.Join(base, "run"))}
	w, err := p.Plan(t.Context(), workspace.Request{
		Sandbox: "box", Name: workspace.Main, Path: repo, Target: "/workspace", Home: u.Home, Places: p.Places,
	})
	if err == nil {
		err = p.Create(t.Context(), w)
	}
	if err != nil {
		t.Fatal(err)
	}
	workspacetest.NewInside(u, w).Run("jj new main -m 'another head' && echo two >two.txt && jj new main && git status --porcelain")
	if _, err := p.Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if status, err := p.Status(t.Context(), w); err != nil || len(status.Elsewhere) != 1 {
		t.Errorf("status: %+v, %v", status, err)
	}
	if _, err := p.Remove(t.Context(), w, workspace.RemoveSaved); err == nil {
		t.Fatal("removed, with a commit that is nowhere else")
	}
	kept, err := p.Remove(t.Context(), w, workspace.RemoveForced)
	if err != nil || len(kept) != 1 || u.Git(repo, "show", kept[0].Ref+":two.txt") != "two" {
		t.Errorf("kept %+v, %v", kept, err)
	}
}
