package snapshot_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/workspace/snapshot"
)

// TestCollect: what nobody asked for goes after its time, and so does what is of a sandbox that is gone.
func TestCollect(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	made := func(sandbox string, automatic bool) string {
		files(t, p.folder.Path, map[string]string{"a": "1", "closed/b": "2"})
		r := p.request()
		r.Sandbox, r.Automatic = sandbox, automatic
		one, err := p.store.Create(t.Context(), r)
		must(t, err)
		return one.ID
	}
	kept := made("here", false)
	made("here", true)
	made("gone", false)
	must(t, os.MkdirAll(filepath.Join(p.store.Dir, ".tmp/here-4194305-killed/main"), 0o700)) // no process has that number: proc(5), pid_max
	now := time.Now()
	collect := func(after time.Duration, dryRun bool) string {
		exists := func(sandbox string, of time.Time) bool { return sandbox == "here" && of.Equal(born) }
		said, err := p.store.Collect(snapshot.Collection{Exists: exists, Now: now.Add(after), DryRun: dryRun})
		must(t, err)
		return strings.Join(said, "\n")
	}
	const day = 24 * time.Hour
	for _, step := range []struct {
		after  time.Duration
		dryRun bool
		says   string // "": it says nothing
		left   int
	}{
		{after: day, left: 3}, // from now on "gone" is known to be
		{after: 29 * day, left: 3},
		{after: 30*day + time.Hour, dryRun: true, says: "of here", left: 3},
		{after: 30*day + time.Hour, says: "of here", left: 2},
		{after: 31*day + time.Hour, says: "of gone", left: 1},
		{after: 400 * day, left: 1},
	} {
		if said := collect(step.after, step.dryRun); !strings.Contains(said, step.says) || step.says == "" && said != "" {
			t.Errorf("after %v it says %q", step.after, said)
		}
		if left, _ := p.store.List(""); len(left) != step.left {
			t.Errorf("after %v %d are left, not %d", step.after, len(left), step.left)
		}
	}
	p.noneUnfinished(t)
	want := []string{filepath.Join(p.store.Dir, "here", kept)}
	if got, err := filepath.Glob(filepath.Join(p.store.Dir, "*/*")); err != nil || !cmp.Equal(want, got) {
		t.Errorf("left: %q, %v", got, err)
	}
}

// TestOneIsDamaged: the others are listed, and it is named with what can be done.
func TestOneIsDamaged(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	files(t, p.folder.Path, map[string]string{"a": "1"})
	one, other := p.create(t), p.create(t)
	must(t, os.WriteFile(filepath.Join(p.store.Dir, "work", one.ID, "snapshot.json"), []byte("{"), 0o600))
	list, err := p.store.List("work")
	if err == nil || !strings.Contains(err.Error(), one.ID) || forage.Hint(err) == "" || len(list) != 1 || list[0].ID != other.ID {
		t.Errorf("%v, %v", list, err)
	}
	must(t, p.store.Delete("work", one.ID))
	if _, err := p.store.List("work"); err != nil {
		t.Error(err)
	}
}

// TestSiblings: what was not touched is one file in both snapshots, and a restored one is none of them. No edit changes a sibling.
func TestSiblings(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.store.Now = func() time.Time { return time.Now().Add(time.Hour) } // what was written now is old
	files(t, p.folder.Path, map[string]string{"same": "content", "changed": "1", "sub/same": "content"})
	stat := func(path string) (st unix.Stat_t) {
		must(t, unix.Lstat(path, &st))
		return st
	}
	one := p.create(t)
	must(t, os.WriteFile(p.path("changed"), []byte("2"), 0o644))
	two := p.create(t)
	if two.Added != 1 {
		t.Errorf("it has added %d bytes", two.Added)
	}
	in := func(s snapshot.Snapshot, name string) string {
		return filepath.Join(p.store.Dir, "work", s.ID, "main", name)
	}
	for _, name := range []string{"same", "sub/same"} {
		if a, b := stat(in(one, name)), stat(in(two, name)); a.Ino != b.Ino || a.Mode != unix.S_IFREG|0o400 {
			t.Errorf("%s: inodes %d and %d, mode %o", name, a.Ino, b.Ino, a.Mode)
		}
	}
	if a, b := stat(in(one, "changed")), stat(in(two, "changed")); a.Ino == b.Ino {
		t.Error("what was changed is the same file")
	}
	must(t, os.Remove(p.path("same")))
	p.restore(t, one.ID)
	if a, b := stat(in(one, "same")), stat(p.path("same")); a.Ino == b.Ino || b.Mode != unix.S_IFREG|0o644 {
		t.Errorf("a restored file: inodes %d and %d, mode %o", a.Ino, b.Ino, b.Mode)
	}
	if os.Getuid() != 0 {
		if err := os.WriteFile(in(one, "same"), []byte("edited"), 0o644); !errors.Is(err, os.ErrPermission) {
			t.Errorf("editing a snapshot: %v", err)
		}
	}
	// npm gives every file the same time, and versions may be of one size: the ctime tells.
	before := stat(p.path("same"))
	must(t, os.WriteFile(p.path("same"), []byte("CONTENT"), 0o644), os.Chtimes(p.path("same"), time.Unix(before.Mtim.Unix()), time.Unix(before.Mtim.Unix())))
	three := p.create(t)
	if data, err := os.ReadFile(in(three, "same")); err != nil || string(data) != "CONTENT" {
		t.Errorf("changed with its time put back: %q, %v", data, err)
	}
}

// TestWhatIsTheSameStays: a restore makes no file anew that was not touched since the snapshot, also in folders with others that were.
func TestWhatIsTheSameStays(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.store.Now = func() time.Time { return time.Now().Add(time.Hour) } // what was written now is old
	files(t, p.folder.Path, map[string]string{"same": "1", "changed": "1", "sub/same": "1", "sub/gone": "1"})
	made := p.create(t)
	must(t, os.WriteFile(p.path("changed"), []byte("2"), 0o644), os.Remove(p.path("sub/gone")))
	inode := func(name string) uint64 {
		var st unix.Stat_t
		must(t, unix.Lstat(p.path(name), &st))
		return st.Ino
	}
	want := []uint64{inode("same"), inode("sub/same")}
	p.restore(t, made.ID)
	if d := cmp.Diff(want, []uint64{inode("same"), inode("sub/same")}); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	checkFiles(t, p.folder.Path, map[string]string{"same": "1", "changed": "1", "sub/same": "1", "sub/gone": "1"})
}
