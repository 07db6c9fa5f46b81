package jjrepo

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"forage"
)

// TestFormats refuses what another version of jj has made otherwise.
func TestFormats(t *testing.T) {
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
	if r, err := Open(t.Context(), repo); err != nil || r.Colocated {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := Open(t.Context(), home); !errors.Is(err, ErrNoRepository) {
		t.Errorf("a folder without a repository: %v", err)
	}
	for file, text := range map[string]string{
		"repo/store/type": "local", "repo/op_store/type": "newer_op_store", "repo/op_heads/type": "", "repo/index/type": "other",
		"repo/submodule_store/type": "x", "working_copy/type": "remote", "repo/store/git_target": "../nowhere",
	} {
		path := filepath.Join(repo, ".jj", file)
		old, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), repo); err == nil || errors.Is(err, ErrNoRepository) {
			t.Errorf("%s that says %q: %v", file, text, err)
		} else if file != "repo/store/git_target" && !errors.Is(err, forage.ErrUnsupported) {
			t.Errorf("%s that says %q: %v, want it unsupported", file, text, err)
		}
		if err := os.WriteFile(path, old, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
