package snapshot_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"forage/internal/rootfs"
	"forage/internal/workspace/snapshot"
)

// names are few, so that what is made meets what is there; some are as an attacker would choose them.
var names = []string{"a", "b", "c", "-rf", "..x", "new\nline", "\x1b[31m", "\u00fc", "u\u0308", "\xff", ".git", strings.Repeat("n", 255)}

// TestRestoreIsExact: whatever was there, and whatever was done to it since, comes back as it was.
func TestRestoreIsExact(t *testing.T) {
	t.Parallel()
	scratch := t.TempDir()
	trees := 0
	rapid.Check(t, func(t *rapid.T) {
		trees++
		dir := filepath.Join(scratch, fmt.Sprint(trees))
		root := filepath.Join(dir, "tree")
		must2(t, os.MkdirAll(root, 0o755))
		defer os.RemoveAll(dir)
		defer reopen(root)
		store := snapshot.Store{Dir: filepath.Join(dir, "store")}
		request := snapshot.Request{Sandbox: "work", Of: born, Folders: []snapshot.Folder{{Name: "main", Path: root}}}

		change(t, root, "made", 10)
		first, want := create(t, store, request), describe(t, root)
		change(t, root, "changed", 10)
		second, wantSecond := create(t, store, request), describe(t, root)
		change(t, root, "changed again", 6)
		third := describe(t, root)

		for _, test := range []struct {
			id   string
			want map[string]string
		}{{first, want}, {second, wantSecond}, {first, want}} {
			before, err := store.Restore(t.Context(), "work", test.id, request)
			must2(t, err)
			if d := cmp.Diff(test.want, describe(t, root)); d != "" {
				t.Fatalf("after restoring %s: -want +got\n%s", test.id, d)
			}
			if third == nil {
				continue
			}
			_, err = store.Restore(t.Context(), "work", before.ID, request)
			must2(t, err)
			if d := cmp.Diff(third, describe(t, root)); d != "" {
				t.Fatalf("after restoring what was before: -want +got\n%s", d)
			}
			third = nil
		}
	})
}

func must2(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *rapid.T, store snapshot.Store, r snapshot.Request) string {
	made, err := store.Create(t.Context(), r)
	must2(t, err)
	if made.SkippedCount > 0 {
		t.Fatalf("left out: %q", made.Skipped)
	}
	return made.ID
}

// reopen makes a tree one that its owner can change.
func reopen(root string) {
	filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if d == nil || d.Type() == os.ModeSymlink {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode()&0o700 != 0o700 && (d.IsDir() || info.Mode()&0o600 != 0o600) {
			os.Chmod(path, info.Mode()|0o700)
		}
		return nil
	})
}

// change does up to n random things to a tree.
func change(t *rapid.T, root, label string, n int) {
	reopen(root)
	closed := make(map[string]os.FileMode) // when all is done
	for range rapid.IntRange(1, n).Draw(t, label) {
		dir := root
		for range rapid.IntRange(0, 3).Draw(t, "depth") {
			next := filepath.Join(dir, rapid.SampledFrom(names[:4]).Draw(t, "folder"))
			if info, err := os.Lstat(next); err != nil {
				must2(t, os.Mkdir(next, 0o755))
			} else if !info.IsDir() {
				break
			}
			dir = next
		}
		one(t, filepath.Join(dir, rapid.SampledFrom(names).Draw(t, "name")), closed)
	}
	paths := slices.Sorted(maps.Keys(closed))
	slices.Reverse(paths) // what is in a folder before the folder
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink == 0 {
			must2(t, os.Chmod(path, closed[path]))
		}
	}
}

// one does one random thing at path. Modes are given when all is done, as they may keep the owner out.
func one(t *rapid.T, path string, closed map[string]os.FileMode) {
	what := rapid.SampledFrom([]string{"file", "file", "file", "big", "link", "folder", "remove", "mode", "time", "rename", "hard", "hard"}).Draw(t, "what")
	info, err := os.Lstat(path)
	there := err == nil
	switch what {
	case "file", "big":
		if there && !info.Mode().IsRegular() {
			must2(t, os.RemoveAll(path))
		}
		content := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "content")
		must2(t, os.WriteFile(path, content, 0o644))
		if what == "big" {
			at := rapid.Int64Range(0, 3<<20).Draw(t, "at")
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			must2(t, err)
			_, err = f.WriteAt(content, at)
			must2(t, err)
			must2(t, f.Truncate(at+rapid.Int64Range(0, 1<<20).Draw(t, "more")))
			must2(t, f.Close())
		}
	case "link":
		must2(t, os.RemoveAll(path))
		must2(t, os.Symlink(rapid.SampledFrom([]string{"/etc/passwd", "..", "a", "\n", "../../../x"}).Draw(t, "target"), path))
	case "folder":
		if !there {
			must2(t, os.Mkdir(path, 0o755))
		}
	case "remove":
		must2(t, os.RemoveAll(path))
	case "rename":
		if there {
			other := filepath.Join(filepath.Dir(path), rapid.SampledFrom(names).Draw(t, "to"))
			if other != path {
				must2(t, os.RemoveAll(other))
				must2(t, os.Rename(path, other))
			}
		}
	case "mode":
		if there && info.Mode()&os.ModeSymlink == 0 {
			closed[path] = os.FileMode(rapid.Uint32Range(0, 0o777).Draw(t, "mode")) | 0o400
			if info.IsDir() {
				closed[path] |= 0o100
			}
		}
	case "hard":
		of := filepath.Join(filepath.Dir(path), rapid.SampledFrom([]string{"", "..", "a", "../b"}).Draw(t, "of"), rapid.SampledFrom(names).Draw(t, "other"))
		if target, err := os.Lstat(of); err == nil && target.Mode().IsRegular() && !rootfs.Within(of, path) {
			must2(t, os.RemoveAll(path))
			if _, err := os.Lstat(of); err == nil { // else a link on the way there leads to path
				must2(t, os.Link(of, path))
			}
		}
	case "time":
		if there {
			ns := rapid.Int64Range(0, 4e18).Draw(t, "time")
			must2(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{unix.NsecToTimespec(ns), unix.NsecToTimespec(ns)}, unix.AT_SYMLINK_NOFOLLOW))
		}
	}
}
