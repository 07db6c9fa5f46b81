package snapshot_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/unixsock"
	"forage/internal/workspace/snapshot"
)

func TestListFindDelete(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.store.Now = func() time.Time { return time.Now().Add(time.Hour) } // what was written now is old
	files(t, p.folder.Path, map[string]string{"a": "1", "b/c": "22", "empty/": ""})
	request := p.request()
	request.Label = "before it breaks"
	made, err := p.store.Create(t.Context(), request)
	must(t, err)
	second := p.create(t)
	want := snapshot.Snapshot{
		ID: made.ID, Sandbox: "work", Of: born, Label: "before it breaks", Made: made.Made,
		Files: 2, Bytes: 3, Added: 3, Folders: []string{"main"},
	}
	if d := cmp.Diff(want, made); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if second.Added != 0 || second.ID == made.ID {
		t.Errorf("the second one: %+v", second)
	}
	list, err := p.store.List("work")
	must(t, err)
	if d := cmp.Diff([]snapshot.Snapshot{made, second}, list); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if others, err := p.store.List("other"); err != nil || len(others) > 0 {
		t.Errorf("of another sandbox: %v, %v", others, err)
	}
	must(t, p.store.Delete("work", made.ID))
	for _, id := range []string{made.ID, "", "..", "../work/" + second.ID, ".gone", "nosuch"} {
		if _, err := p.store.Find("work", id); !errors.Is(err, forage.ErrUsage) || forage.Hint(err) == "" {
			t.Errorf("finding %q: %v", id, err)
		}
		if err := p.store.Delete("work", id); !errors.Is(err, forage.ErrUsage) {
			t.Errorf("deleting %q: %v", id, err)
		}
		if _, err := p.store.Restore(t.Context(), "work", id, p.request()); !errors.Is(err, forage.ErrUsage) {
			t.Errorf("restoring %q: %v", id, err)
		}
	}
}

// TestUntouchedFilesAreNotRead: while a lease is on it, nobody can open a file.
func TestUntouchedFilesAreNotRead(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.store.Now = func() time.Time { return time.Now().Add(time.Hour) } // what was written now is old
	files(t, p.folder.Path, map[string]string{"a": "content"})
	lease(t, p.path("a"))
	if made := p.create(t); made.SkippedCount != 1 || !strings.Contains(made.Skipped[0], "lease") {
		t.Fatalf("%+v", made)
	}
	must(t, os.Remove(p.path("a")), os.WriteFile(p.path("a"), []byte("content"), 0o644))
	first := p.create(t)
	lease(t, p.path("a"))
	if second := p.create(t); second.SkippedCount > 0 || second.Files != first.Files {
		t.Errorf("it was read: %+v", second)
	}
}

// TestNewFilesAreReadAgain: what was written a moment ago may have been written again in the same tick of the clock.
func TestNewFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	p, now := newPlace(t), time.Now()
	p.store.Now = func() time.Time { return now } // however long the next lines take
	files(t, p.folder.Path, map[string]string{"a": "content"})
	first := p.create(t)
	lease(t, p.path("a"))
	if second := p.create(t); second.SkippedCount != 1 {
		t.Errorf("it was not read: %+v", second)
	}
	// What could not be kept is not written over.
	must(t, os.Chtimes(p.path("a"), born, born))
	if _, err := p.store.Restore(t.Context(), "work", first.ID, p.request()); !errors.Is(err, forage.ErrRefused) || forage.Hint(err) == "" {
		t.Errorf("%v", err)
	}
}

func lease(t *testing.T, path string) {
	t.Helper()
	held, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { held.Close() })
	if _, err := unix.FcntlInt(held.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("leases: %v", err)
	}
}

// TestIgnored: it is left out, and stays where it is.
func TestIgnored(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	whole := p.folder
	p.folder.Ignored = func(path string) bool { return path == "build/" || strings.HasSuffix(path, ".log") }
	files(t, p.folder.Path, map[string]string{"a": "1", "x.log": "log", "build/out/b": "built"})
	first := p.create(t)
	if first.Files != 1 || first.SkippedCount != 0 {
		t.Errorf("%+v", first)
	}
	files(t, p.folder.Path, map[string]string{"a": "2", "x.log": "more", "build/c": "too", "new.log": "new"})
	p.restore(t, first.ID)
	checkFiles(t, p.folder.Path, map[string]string{"a": "1", "x.log": "more", "build/out/b": "built", "build/c": "too", "new.log": "new"})

	// What was ignored then stays, though nothing is ignored now.
	p.folder = whole
	p.restore(t, first.ID)
	checkFiles(t, p.folder.Path, map[string]string{"a": "1", "x.log": "more", "build/out/b": "built", "build/c": "too"})
}

// TestIgnoredNow: what the snapshot has is kept before it is written over, even if it is ignored by now.
func TestIgnoredNow(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	files(t, p.folder.Path, map[string]string{"build/a": "1", "secret": "old"})
	first := p.create(t)
	p.folder.Ignored = func(path string) bool { return path == "build/" || path == "secret" || path == "secret/" }
	files(t, p.folder.Path, map[string]string{"build/a": "2", "build/b": "only here", "secret": "new"})
	before := p.restore(t, first.ID)
	checkFiles(t, p.folder.Path, map[string]string{"build/a": "1", "build/b": "only here", "secret": "old"})
	p.restore(t, before.ID)
	checkFiles(t, p.folder.Path, map[string]string{"build/a": "2", "build/b": "only here", "secret": "new"})

	// Nothing takes the place of what is kept nowhere.
	must(t, os.Remove(p.path("secret")))
	files(t, p.folder.Path, map[string]string{"secret/inside": "only here too"})
	_, err := p.store.Restore(t.Context(), "work", first.ID, p.request())
	if !errors.Is(err, forage.ErrRefused) || !strings.Contains(err.Error(), "in the way") {
		t.Errorf("%v", err)
	}
	checkFiles(t, p.folder.Path, map[string]string{"build/a": "1", "build/b": "only here", "secret/inside": "only here too"})
}

func checkFiles(t *testing.T, root string, want map[string]string) {
	t.Helper()
	got := make(map[string]string)
	must(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(root, path)
		got[rel] = string(data)
		return err
	}))
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// TestSpecialFiles are left out, said, and left alone.
func TestSpecialFiles(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	files(t, p.folder.Path, map[string]string{"a": "1"})
	must(t, unix.Mkfifo(p.path("fifo"), 0o644))
	listener, err := unixsock.Listen(p.path("sock"))
	must(t, err)
	defer listener.Close()
	must(t, os.Chmod(p.path("a"), 0o755|os.ModeSetuid|os.ModeSetgid))
	made := p.create(t)
	if d := cmp.Diff([]string{"fifo: neither a file nor a folder", "sock: neither a file nor a folder"}, made.Skipped); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	must(t, os.Remove(p.path("a")), unix.Mkfifo(p.path("a"), 0o644), os.Remove(p.path("fifo")))
	p.restore(t, made.ID)
	info, err := os.Lstat(p.path("a"))
	must(t, err)
	if info.Mode() != 0o755 {
		t.Errorf("it comes back as %v", info.Mode())
	}
	if _, err := os.Lstat(p.path("sock")); err != nil {
		t.Error(err)
	}
	must(t, os.Chmod(p.path("a"), 0o755|os.ModeSetuid))
	p.restore(t, made.ID)
	if info, err := os.Lstat(p.path("a")); err != nil || info.Mode() != 0o755 {
		t.Errorf("what is there stays %v, %v", info.Mode(), err)
	}
}

// TestHardLinks come back as they were, and nothing is changed through those that lead out of the folder.
func TestHardLinks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	outside := filepath.Join(t.TempDir(), "outside")
	files(t, p.folder.Path, map[string]string{"a": "1", "one": "content", "sub/x": "x"})
	must(t, os.Link(p.path("a"), outside), os.Link(p.path("one"), p.path("sub/two")), os.Link(p.path("one"), p.path("three")))
	made, want := p.create(t), describe(t, p.folder.Path)
	delete(want, "a") // its other name is none of ours
	steps := map[string]func() error{
		"nothing": func() error { return nil },
		"a link is a file of its own": func() error {
			return errors.Join(os.Remove(p.path("sub/two")), os.WriteFile(p.path("sub/two"), []byte("content"), 0o644))
		},
		"the first is another file": func() error {
			return errors.Join(os.Remove(p.path("one")), os.WriteFile(p.path("one"), []byte("content"), 0o644))
		},
		"the first is gone":    func() error { return os.Remove(p.path("one")) },
		"all are changed":      func() error { return os.WriteFile(p.path("three"), []byte("else"), 0o644) },
		"all have other modes": func() error { return os.Chmod(p.path("three"), 0o600) },
		"one more":             func() error { return os.Link(p.path("one"), p.path("sub/four")) },
		"linked to another": func() error {
			return errors.Join(os.Remove(p.path("sub/x")), os.Link(p.path("one"), p.path("sub/x")))
		},
		"everything is gone": func() error { return errors.Join(os.RemoveAll(p.folder.Path), os.Mkdir(p.folder.Path, 0o755)) },
	}
	for what, step := range steps {
		t.Run(what, func(t *testing.T) {
			must(t, step())
			p.restore(t, made.ID)
			got := describe(t, p.folder.Path)
			delete(got, "a")
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
	must(t, os.Remove(p.path("a")), os.WriteFile(outside, []byte("2"), 0o600), os.Chmod(outside, 0o600), os.Link(outside, p.path("a")))
	p.restore(t, made.ID)
	one, err := os.Lstat(p.path("a"))
	must(t, err)
	if info, err := os.Lstat(outside); err != nil || info.Mode() != 0o600 || os.SameFile(info, one) || one.Mode() != 0o644 {
		t.Errorf("%v outside, %v inside: %v", info.Mode(), one.Mode(), err)
	}
	checkFiles(t, p.folder.Path, map[string]string{"a": "1", "one": "content", "three": "content", "sub/two": "content", "sub/x": "x"})
	checkFiles(t, filepath.Dir(outside), map[string]string{"outside": "2"})
}

// TestHoles: a file that says it is huge costs what it holds.
func TestHoles(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const size = 1 << 40
	f, err := os.Create(p.path("huge"))
	must(t, err)
	_, err = f.WriteAt([]byte("in the middle"), size/2+5)
	must(t, err, f.Truncate(size), f.Close())
	f, err = os.Create(p.path("many"))
	must(t, err)
	for at := int64(0); at < 8<<20; at += 64 << 10 {
		_, err = f.WriteAt([]byte("a page of each"), at)
		must(t, err)
	}
	must(t, f.Close())
	var before, after unix.Stat_t
	must(t, unix.Lstat(p.path("many"), &before))
	made := p.create(t)
	must(t, os.Remove(p.path("huge")), os.Remove(p.path("many")))
	p.restore(t, made.ID)
	var st unix.Stat_t
	must(t, unix.Lstat(p.path("huge"), &st))
	f, err = os.Open(p.path("huge"))
	must(t, err)
	defer f.Close()
	got := make([]byte, 13)
	_, err = f.ReadAt(got, size/2+5)
	must(t, err)
	if st.Size != size || st.Blocks*512 > 1<<20 || !bytes.Equal(got, []byte("in the middle")) {
		t.Errorf("%d bytes in %d blocks: %q", st.Size, st.Blocks, got)
	}
	if must(t, unix.Lstat(p.path("many"), &after)); after.Blocks > 2*before.Blocks {
		t.Errorf("%d blocks become %d", before.Blocks, after.Blocks)
	}
}

// TestExport writes to an empty place, and to no other.
func TestExport(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	files(t, p.folder.Path, map[string]string{"a": "1", "b/c": "2"})
	made, want := p.create(t), describe(t, p.folder.Path)
	to := filepath.Join(t.TempDir(), "new")
	folders := []snapshot.Folder{{Name: "main", Path: to}}
	must(t, p.store.Export(t.Context(), "work", made.ID, folders))
	if d := cmp.Diff(want, describe(t, to)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if err := p.store.Export(t.Context(), "work", made.ID, folders); !errors.Is(err, forage.ErrRefused) {
		t.Errorf("onto something: %v", err)
	}
}

// TestAtOnce: many snapshots of one sandbox in one second are all kept.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	files(t, p.folder.Path, map[string]string{"a": "1", "b": "2"})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := p.store.Create(t.Context(), p.request()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list, err := p.store.List("work"); err != nil || len(list) != 20 {
		t.Errorf("%d: %v", len(list), err)
	}
}

// TestFolderIsGone: it is made again.
func TestFolderIsGone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	files(t, p.folder.Path, map[string]string{"a": "1"})
	made, want := p.create(t), describe(t, p.folder.Path)
	must(t, os.RemoveAll(p.folder.Path))
	p.restore(t, made.ID)
	if d := cmp.Diff(want, describe(t, p.folder.Path)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// TestMaxCopied: what would have to be copied is bounded, and what is there already costs nothing.
func TestMaxCopied(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	files(t, p.folder.Path, map[string]string{"a": "0123456789", "b": "abcdefghij"})
	r := p.request()
	r.MaxCopied = 15
	switch _, err := p.store.Create(t.Context(), r); {
	case err == nil:
		t.Skip("the file system shares blocks: nothing is copied")
	case !errors.Is(err, forage.ErrRefused):
		t.Fatal(err)
	}
	p.store.Now = func() time.Time { return time.Now().Add(time.Hour) } // what was written now is old
	p.create(t)
	if _, err := p.store.Create(t.Context(), r); err != nil {
		t.Error(err)
	}
}
