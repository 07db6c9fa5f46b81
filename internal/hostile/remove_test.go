package hostile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"forage/internal/testdir"
)

// What was made inside can be removed, however deep it is and whatever its permissions.
func TestRemoveAll(t *testing.T) {
	top := filepath.Join(t.TempDir(), "top")
	must(t, os.MkdirAll(filepath.Join(top, "closed/deeper"), 0o700))
	must(t, os.WriteFile(filepath.Join(top, "closed/deeper/file"), []byte("x"), 0o600))
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.WriteFile(outside, []byte("x"), 0o600))
	must(t, os.Symlink(filepath.Dir(outside), filepath.Join(top, "link")))
	must(t, unix.Mkfifo(filepath.Join(top, "fifo"), 0o600))
	makeDeep(t, filepath.Join(top, "deep"), 5000)
	for _, name := range []string{"closed/deeper", "closed"} {
		must(t, os.Chmod(filepath.Join(top, name), 0))
	}
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	few := limit
	few.Cur = 1000
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	must(t, RemoveAll(top))
	if _, err := os.Lstat(top); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := os.Lstat(outside); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	for _, path := range []string{top, filepath.Join(top, "in/none")} {
		must(t, RemoveAll(path))
	}
	must(t, os.Symlink(filepath.Dir(outside), top))
	must(t, RemoveAll(top))
	if _, err := os.Lstat(outside); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
}

// makeDeep makes folders within one another, deeper than any path can say.
func makeDeep(t *testing.T, path string, depth int) {
	t.Helper()
	must(t, os.Mkdir(path, 0o755))
	at, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY, 0)
	must(t, err)
	for range depth {
		must(t, unix.Mkdirat(at, "d", 0o755))
		next, err := unix.Openat(at, "d", unix.O_PATH|unix.O_DIRECTORY, 0)
		must(t, err)
		must(t, unix.Close(at))
		at = next
	}
	must(t, unix.Close(at))
}

func must(t *testing.T, err error) {
	t.Helper()
	testdir.Must(t, err)
}

// What is to stay does, with the folders that it is in, and nothing else.
func TestRemoveAtKeeps(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for _, name := range []string{"a/kept/x", "a/b/gone", "a/b/stays", "a/c/gone"} {
		must(t, os.MkdirAll(filepath.Join(top, filepath.Dir(name)), 0o700))
		must(t, os.WriteFile(filepath.Join(top, name), nil, 0o600))
	}
	keep := map[uint64]bool{}
	for _, name := range []string{"a/kept", "a/b/stays"} {
		var st unix.Stat_t
		must(t, unix.Lstat(filepath.Join(top, name), &st))
		keep[st.Ino] = true
	}
	parent, err := os.Open(top)
	must(t, err)
	defer parent.Close()
	must(t, RemoveAt(int(parent.Fd()), "a", func(st *unix.Stat_t) bool { return keep[st.Ino] }))
	var left []string
	must(t, Walk(top, func(rel string, _ *unix.Stat_t) error { left = append(left, rel); return nil }))
	testdir.Same(t, "", []string{"", "a", "a/b", "a/b/stays", "a/kept"}, left)
}
