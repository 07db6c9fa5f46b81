package workspace_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/workspace"
)

// Whatever is done to a file, and however its times are set back, a folder was touched.
func TestUntouched(t *testing.T) {
	t.Parallel()
	old := time.Unix(1e9, 0)
	for name, touch := range map[string]func(file string) error{
		"nothing": nil,
		"written, with its old time": func(file string) error {
			if err := os.WriteFile(file, []byte("y"), 0o600); err != nil {
				return err
			}
			return os.Chtimes(file, old, old)
		},
		"made": func(file string) error { return os.Mkdir(file+".d", 0o700) },
		"put in from elsewhere": func(file string) error {
			return os.Rename(filepath.Join(filepath.Dir(file), "../../elsewhere"), file)
		},
		"removed": os.Remove,
		"a link":  func(file string) error { return os.Link(file, filepath.Join(filepath.Dir(file), "../../linked")) },
		"closed":  func(file string) error { return os.Chmod(filepath.Dir(file), 0o500) },
		"replaced": func(file string) error {
			return unix.Renameat2(unix.AT_FDCWD, file, unix.AT_FDCWD, file+".2", unix.RENAME_EXCHANGE)
		},
	} {
		root := t.TempDir()
		folder, file := filepath.Join(root, "tree"), filepath.Join(root, "tree/sub/file")
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{file, file + ".2", filepath.Join(root, "elsewhere")} {
			if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		now := func() workspace.Moment {
			m, err := workspace.Now(root)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		for first := now(); now() == first; { // the clock's next tick
		}
		before := now()
		if touch != nil {
			if err := touch(file); err != nil {
				t.Fatal(err)
			}
		}
		if got := before.Untouched(folder, filepath.Join(root, "absent")); got != (touch == nil) {
			t.Errorf("%s: untouched is %v", name, got)
		}
		_ = os.Chmod(filepath.Dir(file), 0o700)
	}
}
