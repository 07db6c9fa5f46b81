package gitrepo

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What was made inside can be removed, however deep it is and whatever its permissions.
func TestRemoveAll(t *testing.T) {
	top := filepath.Join(t.TempDir(), "top")
	write(t, filepath.Join(top, "closed/deeper/file"), "x")
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, "x")
	must(t, os.Symlink(filepath.Dir(outside), filepath.Join(top, "link")))
	must(t, unix.Mkfifo(filepath.Join(top, "fifo"), 0o600))
	for _, name := range []string{"deep", "deeper"} {
		makeDeep(t, filepath.Join(top, name), 5000)
	}
	for _, name := range []string{"closed/deeper", "closed"} {
		must(t, os.Chmod(filepath.Join(top, name), 0))
	}
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	few := limit
	few.Cur = 1000
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	must(t, removeAll(top))
	if _, err := os.Lstat(top); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := os.Lstat(outside); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	for _, path := range []string{top, filepath.Join(top, "in/none")} {
		must(t, removeAll(path))
	}
	must(t, os.Symlink(filepath.Dir(outside), top))
	must(t, removeAll(top))
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
