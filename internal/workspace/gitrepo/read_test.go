package gitrepo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/testgit"
)

// TestNothingWaitsForAFIFO puts what nobody ever writes to in the place of each file that is read
// of a repository.
func TestNothingWaitsForAFIFO(t *testing.T) {
	t.Parallel()
	for _, name := range []string{".git/HEAD", ".git/config", ".git/commondir", ".git/packed-refs", ".git/index", ".git/info/exclude"} {
		t.Run(name, func(t *testing.T) {
			repo := testgit.Init(t, t.TempDir())
			repo.Commit("a.txt", "a\n")
			file := filepath.Join(repo.Dir, name)
			if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if err := unix.Mkfifo(file, 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := Open(t.Context(), repo.Dir)
			if err == nil {
				_, err = r.Refs(t.Context(), t.TempDir())
			}
			if err == nil {
				_, err = r.Gitlinks(t.Context(), filepath.Join(r.GitDir, "index"), t.TempDir())
			}
			if err == nil {
				err = CopyIndex(filepath.Join(r.GitDir, "index"), filepath.Join(t.TempDir(), "index"))
			}
			if err == nil {
				_, err = r.Shadow(t.TempDir())
			}
			if !errors.Is(err, forage.ErrUnsupported) {
				t.Errorf("with a FIFO at %s: %v", name, err)
			}
		})
	}
}

func TestALinkIsNoSmallFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600), os.Symlink("file", link)); err != nil {
		t.Fatal(err)
	}
	if text, err := readSmall(link); !errors.Is(err, forage.ErrUnsupported) {
		t.Errorf("through a link: %q, %v", text, err)
	}
}

func TestHeadIsABranchOrACommit(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("a1", 20)
	for text, want := range map[string]struct{ head, detached string }{
		"ref: refs/heads/main\n": {head: "main"}, "ref:refs/heads/a/b": {head: "a/b"}, id + "\n": {detached: id},
		"--index-output=/tmp/x\n": {}, "ref: refs/heads/../../x\n": {}, "ref: --upload-pack=x\n": {}, "": {}, id + " x\n": {},
	} {
		repo := testgit.Init(t, t.TempDir())
		if err := os.WriteFile(filepath.Join(repo.Dir, ".git/HEAD"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Open(t.Context(), repo.Dir)
		switch bad := want.head+want.detached == ""; {
		case bad && !errors.Is(err, forage.ErrUnsupported):
			t.Errorf("HEAD %q: %v", text, err)
		case !bad && (err != nil || r.Head != want.head || r.Detached != want.detached):
			t.Errorf("HEAD %q: %+v, %v", text, r, err)
		}
	}
}
