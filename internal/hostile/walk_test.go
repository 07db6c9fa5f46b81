package hostile

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"forage/internal/testdir"
)

func TestWalk(t *testing.T) {
	t.Parallel()
	top := filepath.Join(t.TempDir(), "top")
	must(t, os.MkdirAll(filepath.Join(top, "b/skipped/in"), 0o700))
	must(t, os.WriteFile(filepath.Join(top, "b/a"), nil, 0o600))
	must(t, unix.Mkfifo(filepath.Join(top, "fifo"), 0o600))
	must(t, os.Symlink("b", filepath.Join(top, "link")))
	var got []string
	must(t, Walk(top, func(rel string, st *unix.Stat_t) error {
		got = append(got, rel)
		if filepath.Base(rel) == "skipped" {
			return fs.SkipDir
		}
		return nil
	}))
	testdir.Same(t, "", []string{"", "b", "b/a", "b/skipped", "fifo", "link"}, got)
	all := func(string, *unix.Stat_t) error { return nil }
	if err := Walk(filepath.Join(top, "link"), all); err == nil {
		t.Error("a link was followed")
	}
	makeDeep(t, filepath.Join(top, "deep"), MaxDepth+1)
	testdir.Fails(t, "of folders that are too deep", ErrTooDeep, Walk(top, all))
}
