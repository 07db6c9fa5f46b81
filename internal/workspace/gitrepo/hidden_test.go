package gitrepo

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"forage/internal/testgit"
	"forage/internal/workspace"
)

// Git lists nothing of these: they are work all the same, and are kept.
func TestWhatGitDoesNotListIsWork(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		do   func(t *testing.T, b *box)
		want []string
		kept []string
	}{
		"a repository in a folder with tracked files": {func(t *testing.T, b *box) {
			inner := testgit.At(t, filepath.Join(b.work.Path, "sub/d"), testgit.Environ(t.TempDir()))
			inner.Git("init", "-q")
			inner.Git("add", "x")
			inner.Git("commit", "-q", "-m", "inner")
		}, []string{"sub/d/"}, []string{"sub/d/.git/HEAD", "sub/d/x"}},
		"repositories in one another": {func(t *testing.T, b *box) {
			testgit.At(t, filepath.Join(b.work.Path, "sub/d"), testgit.Environ(t.TempDir())).Git("init", "-q")
			testgit.At(t, filepath.Join(b.work.Path, "sub"), testgit.Environ(t.TempDir())).Git("init", "-q")
			must(t, unix.Mkfifo(filepath.Join(b.work.Path, "sub/d/fifo"), 0o600))
		}, []string{"sub/", "sub/d/"}, []string{"sub/.git/HEAD", "sub/d/.git/HEAD", "sub/d/x"}},
		"files where a submodule has no repository": {func(t *testing.T, b *box) {
			write(t, filepath.Join(b.work.Path, "module/deep/work"), "nowhere else\n")
		}, []string{"module/"}, []string{"module/deep/work"}},
		"a submodule without files": {func(t *testing.T, b *box) {
			must(t, os.MkdirAll(filepath.Join(b.work.Path, "module/deep"), 0o755))
		}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, newHost(t), "box")
			write(t, filepath.Join(b.work.Path, "sub/d/x"), "tracked\n")
			b.inside.Git("add", "sub")
			b.inside.Git("update-index", "--add", "--cacheinfo", "160000,"+b.work.Base+",module")
			b.inside.Git("commit", "-q", "-m", "more")
			b.importIt()
			test.do(t, b)
			if diff := cmp.Diff(test.want, b.unsaved().Uncommitted); diff != "" {
				t.Errorf("uncommitted (-want +got):\n%s", diff)
			}
			_, kept := b.keep()
			for _, file := range test.kept {
				if !slices.ContainsFunc(kept, func(r workspace.Recovery) bool {
					return r.Folder != "" && !gone(filepath.Join(r.Folder, "files", file))
				}) {
					t.Errorf("%s was not kept: %+v", file, kept)
				}
			}
		})
	}
}

// A file that was changed in the second of a look can change again and have the same times.
func TestNoIndexIsKeptThatMayHideAChange(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	file, old := filepath.Join(b.work.Path, "a"), time.Unix(1e9, 0)
	second := func() int64 {
		var st unix.Stat_t
		must(t, unix.Lstat(file, &st))
		return st.Ctim.Sec
	}
	for first := int64(0); second() != first; { // until both are in one second
		write(t, file, "one\n")
		must(t, os.Chtimes(file, old, old))
		first = second()
		b.unsaved()
		write(t, file, "EVL\n")
		must(t, os.Chtimes(file, old, old))
	}
	if got := b.unsaved().Uncommitted; !slices.Equal(got, []string{"a"}) {
		t.Errorf("uncommitted: %q", got)
	}
}
