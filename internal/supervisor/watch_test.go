package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/testgit"
)

func TestWatchedFolders(t *testing.T) {
	for _, test := range []struct {
		repository forage.Repository
		want       []string
	}{
		{forage.Repository{Kind: forage.RepositoryGit, Head: "forage-box"}, []string{"git", "git/logs", "git/refs/heads"}},
		{forage.Repository{Kind: forage.RepositoryGit, Head: "a/b/c"}, []string{"git", "git/logs", "git/refs/heads", "git/refs/heads/a/b", "git/refs/heads/a"}},
		{forage.Repository{Kind: forage.RepositoryGit}, []string{"git", "git/logs", "git/refs/heads"}},
		{forage.Repository{Kind: forage.RepositoryJJ}, []string{"jj/repo/op_heads/heads"}},
	} {
		if diff := cmp.Diff(test.want, watched(test.repository)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test.repository, diff)
		}
	}
}

// startImporter runs an importer over private metadata in a new folder, and returns the folder and
// a channel that gets a value for each import.
func startImporter(t *testing.T, head string) (string, <-chan struct{}) {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "git/refs/heads"), 0o755); err != nil {
		t.Fatal(err)
	}
	imports := make(chan struct{}, 100)
	parts := []forage.Workspace{{Repository: &forage.Repository{Kind: forage.RepositoryGit, Dir: dir, Head: head}}}
	i := newImporter(parts, time.Millisecond, func(context.Context, forage.Workspace) { imports <- struct{}{} })
	if i == nil {
		t.Skip("no inotify instance is left")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return dir, imports
}

func awaitImport(t *testing.T, imports <-chan struct{}, why string) {
	t.Helper()
	select {
	case <-imports:
	case <-time.After(time.Minute):
		t.Fatalf("%s was not noticed", why)
	}
}

func TestACommitInsideIsNoticed(t *testing.T) {
	dir, imports := startImporter(t, "topic/box")
	put := func(name string) {
		t.Helper()
		path := filepath.Join(dir, "git", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".lock", []byte("x\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".lock", path); err != nil {
			t.Fatal(err)
		}
	}
	put("refs/heads/topic/box") // its folder is made first
	awaitImport(t, imports, "a branch that was made")
	drain(imports)
	put("refs/heads/topic/box")
	awaitImport(t, imports, "a commit in a folder that was made later")
}

// drain waits until what was done is imported.
func drain(imports <-chan struct{}) {
	for {
		select {
		case <-imports:
		case <-time.After(100 * time.Millisecond):
			return
		}
	}
}

// TestWorkOnAnyBranchIsNoticed: in whatever way git moves what is checked out.
func TestWorkOnAnyBranchIsNoticed(t *testing.T) {
	dir, imports := startImporter(t, "forage-box")
	work := t.TempDir()
	git := testgit.At(t, work, append(testgit.Environ(t.TempDir()), "GIT_DIR="+filepath.Join(dir, "git"), "GIT_WORK_TREE="+work))
	for _, args := range [][]string{
		{"init", "-q", "-b", "forage-box"},
		{"commit", "-q", "--allow-empty", "-m", "first"},
		{"switch", "-q", "-c", "fix/deep/x"},
		{"commit", "-q", "--allow-empty", "-m", "second"},
		{"switch", "-q", "forage-box"},
		{"switch", "-q", "fix/deep/x"},
		{"update-ref", "HEAD", "HEAD^"},
		{"switch", "-q", "--detach"},
		{"commit", "-q", "--allow-empty", "-m", "third"},
	} {
		drain(imports)
		git.Git(args...)
		awaitImport(t, imports, fmt.Sprintf("git %q", args))
	}
}

func TestALinkIsNotWatched(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "git/refs")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../git", filepath.Join(dir, "git/inside")); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Skip("no inotify instance is left")
	}
	defer unix.Close(fd)
	for _, folder := range []string{"git/refs", "git/refs/heads", "git/inside"} {
		if err := addWatch(fd, dir, folder); !errors.Is(err, unix.ELOOP) {
			t.Errorf("%s: %v, want ELOOP", folder, err)
		}
	}
	if err := addWatch(fd, dir, "git"); err != nil {
		t.Errorf("a folder: %v", err)
	}
}

func TestNothingToWatch(t *testing.T) {
	for _, w := range []forage.Workspace{{}, {ReadOnly: true, Repository: &forage.Repository{}}} {
		if newImporter([]forage.Workspace{w}, time.Second, nil) != nil {
			t.Errorf("%+v is watched", w)
		}
	}
}
