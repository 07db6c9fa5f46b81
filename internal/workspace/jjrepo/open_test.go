package jjrepo

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestOpen looks at folders that have a repository, none, and one without its git.
func TestOpen(t *testing.T) {
	if _, err := exec.LookPath("jj"); err != nil {
		t.Skip("jj is not installed")
	}
	home := t.TempDir()
	repo := filepath.Join(home, "repo")
	cmd := exec.Command("jj", "git", "init", "--no-colocate", repo)
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r, err := Open(t.Context(), repo)
	if err != nil || r.Colocated {
		t.Fatalf("%+v, %v", r, err)
	}
	if s, err := r.Shadow(t.Context(), t.TempDir()); err != nil {
		t.Error(err)
	} else if all, err := s.WorkingCopies(t.Context()); err != nil || all["default"] == "" {
		t.Errorf("the workspaces are %q, %v", all, err)
	}
	if _, err := Open(t.Context(), home); !errors.Is(err, ErrNoRepository) {
		t.Errorf("a folder without a repository: %v", err)
	}
	if err := os.WriteFile(filepath.Join(repo, ".jj/repo/store/git_target"), []byte("../nowhere"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), repo); err == nil || errors.Is(err, ErrNoRepository) {
		t.Errorf("without its git: %v", err)
	}
}
