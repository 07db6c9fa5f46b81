package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/store"
	"forage/internal/workspace/snapshot"
)

// storeVar makes this test binary a process that makes snapshots until it is killed.
const storeVar = "FORAGE_SNAPSHOT_TEST"

func TestMain(m *testing.M) {
	if dir := os.Getenv(storeVar); dir != "" {
		fmt.Fprintln(os.Stderr, work(dir))
		os.Exit(1)
	}
	unix.Umask(0o022) // modes are compared
	os.Exit(m.Run())
}

// work changes the tree in dir, keeps it and restores it, again and again.
func work(dir string) error {
	store := snapshot.Store{Dir: filepath.Join(dir, "store")}
	request := snapshot.Request{Sandbox: "work", Of: born, Folders: []snapshot.Folder{{Name: "main", Path: filepath.Join(dir, "tree")}}}
	for i := 0; ; i++ {
		for j := range 20 {
			content := strings.Repeat(fmt.Sprint(i*j), 1000*j)
			if err := os.WriteFile(filepath.Join(dir, "tree", fmt.Sprint("f", j)), []byte(content), 0o644); err != nil {
				return err
			}
		}
		made, err := store.Create(context.Background(), request)
		if err != nil {
			return err
		}
		if i == 0 {
			fmt.Println("begun")
		}
		if _, err := store.Restore(context.Background(), "work", made.ID, request); err != nil {
			return err
		}
	}
}

// TestKilled: whenever it is killed, every snapshot that is listed can be restored, and nothing else is left after
// collecting.
func TestKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	files(t, p.folder.Path, map[string]string{"precious": "content"})
	first, want := p.create(t), describe(t, p.folder.Path)
	for i := range 6 {
		kill(t, filepath.Dir(p.folder.Path), time.Duration(i*i)*7*time.Millisecond)
	}
	list, err := p.store.List("")
	must(t, err)
	for _, one := range list {
		p.restore(t, one.ID)
	}
	p.restore(t, first.ID)
	if d := cmp.Diff(want, describe(t, p.folder.Path)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	exists := func(string, time.Time) bool { return true }
	_, err = p.store.Collect(snapshot.Collection{Exists: exists, Now: time.Now()})
	must(t, err)
	p.noneUnfinished(t)
	p.restore(t, list[len(list)-1].ID)
}

// kill starts work and kills it a moment after it has begun.
func kill(t *testing.T, dir string, after time.Duration) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), storeVar+"="+dir)
	out, err := c.StdoutPipe()
	must(t, err, c.Start())
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Errorf("it ended by itself: %v", err)
	}
	time.AfterFunc(after, func() { c.Process.Kill() })
	c.Wait()
}

// TestSwappedForLinks: while it is looked through and restored, folders and files are swapped for links that lead
// out. Nothing from outside gets in, and nothing outside is changed.
func TestSwappedForLinks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	outside := t.TempDir()
	files(t, outside, map[string]string{"f": "outside", "deep/f": "outside"})
	for i := range 30 {
		files(t, p.folder.Path, map[string]string{fmt.Sprintf("d%02d/f", i): "inside", fmt.Sprintf("d%02d/deep/f", i): "inside"})
	}
	first, want := p.create(t), describe(t, outside)
	stop := make(chan struct{})
	var attacker sync.WaitGroup
	attacker.Go(func() { swap(p.folder.Path, outside, stop) })
	for range 6 {
		made, err := p.store.Create(t.Context(), p.request())
		must(t, err)
		_, err = p.store.Restore(t.Context(), "work", first.ID, p.request())
		if err != nil {
			t.Logf("restoring: %v", err) // it may lose the race, and says so
		}
		to := filepath.Join(t.TempDir(), "look")
		must(t, p.store.Export(t.Context(), "work", made.ID, []snapshot.Folder{{Name: "main", Path: to}}))
		for path, what := range describe(t, to) {
			data, err := os.ReadFile(filepath.Join(to, path))
			if err == nil && string(data) == "outside" && !strings.Contains(what, " -> ") && !throughLink(to, path) {
				t.Fatalf("%s has come in: %s", path, what)
			}
		}
	}
	close(stop)
	attacker.Wait()
	if d := cmp.Diff(want, describe(t, outside)); d != "" {
		t.Errorf("outside: -want +got\n%s", d)
	}
	p.restore(t, first.ID)
	for i := range 30 {
		if data, err := os.ReadFile(p.path(fmt.Sprintf("d%02d/deep/f", i))); err != nil || string(data) != "inside" {
			t.Errorf("%q, %v", data, err)
		}
	}
}

// TestALinkOnTheWay: whoever owns a folder above the workspace has it lead somewhere else since.
func TestALinkOnTheWay(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	above, outside := filepath.Join(p.folder.Path, "above"), t.TempDir()
	p.folder.Path = filepath.Join(above, "tree")
	files(t, p.folder.Path, map[string]string{"f": "inside"})
	files(t, filepath.Join(outside, "tree"), map[string]string{"f": "outside"})
	first := p.create(t)
	if err := errors.Join(os.Rename(above, above+".was"), os.Symlink(outside, above)); err != nil {
		t.Fatal(err)
	}
	want := describe(t, outside)
	if _, err := p.store.Restore(t.Context(), "work", first.ID, p.request()); !errors.Is(err, forage.ErrRefused) {
		t.Errorf("restoring: %v", err)
	}
	if _, err := p.store.Create(t.Context(), p.request()); !errors.Is(err, forage.ErrRefused) {
		t.Errorf("keeping: %v", err)
	}
	if d := cmp.Diff(want, describe(t, outside)); d != "" {
		t.Errorf("outside: -want +got\n%s", d)
	}
	if err := os.RemoveAll(filepath.Join(outside, "tree")); err != nil {
		t.Fatal(err)
	}
	_, err := p.store.Restore(t.Context(), "work", first.ID, p.request())
	if left := describe(t, outside); err == nil || len(left) != 1 {
		t.Errorf("a folder that is gone was made elsewhere: %v, %v", err, left)
	}
}

func throughLink(root, path string) bool {
	real, err := filepath.EvalSymlinks(filepath.Join(root, path))
	return err != nil || !strings.HasPrefix(real, root)
}

// swap exchanges folders, and folders in them, for links. What it has left exchanged it doesn't go through: it would be the one that
// changes what is outside.
func swap(root, outside string, stop chan struct{}) {
	for n := 0; ; n++ {
		for i := range 30 {
			select {
			case <-stop:
				return
			default:
			}
			parent, name := root, fmt.Sprintf("d%02d", i)
			if n%2 == 1 {
				parent, name = filepath.Join(root, name), "deep"
			}
			dir, err := unix.Open(parent, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			if err != nil {
				continue
			}
			link := name + ".link"
			unix.Symlinkat(outside, dir, link)
			unix.Renameat2(dir, name, dir, link, unix.RENAME_EXCHANGE)
			unix.Renameat2(dir, name, dir, link, unix.RENAME_EXCHANGE)
			unix.Unlinkat(dir, link, 0)
			unix.Close(dir)
		}
	}
}

// TestNeverStill: a file that changes all the time holds nothing up.
func TestNeverStill(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	files(t, p.folder.Path, map[string]string{"a": "1", "log": ""})
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		f, err := os.OpenFile(p.path("log"), os.O_WRONLY, 0)
		if err != nil {
			return
		}
		defer f.Close()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				f.WriteAt([]byte("line"), int64(i%1000)*4)
				if i%1000 == 0 {
					f.Truncate(0)
				}
			}
		}
	})
	for range 30 {
		if made := p.create(t); made.Files+made.SkippedCount != 2 {
			t.Errorf("%+v", made)
		}
	}
	close(stop)
	writer.Wait()
}

// TestDeep: folders without end are left out, and said.
func TestDeep(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	files(t, p.folder.Path, map[string]string{strings.Repeat("d/", 600) + "f": "x", "a": "1"})
	made := p.create(t)
	if made.Files != 1 || made.SkippedCount != 1 {
		t.Errorf("%+v", made)
	}
	p.restore(t, made.ID)
	if _, err := os.Lstat(p.path(strings.Repeat("d/", 600) + "f")); err != nil {
		t.Error(err)
	}
}

// TestClosed: what its own mode closes to its owner is named, and left alone. What its mode protects comes back so.
func TestClosed(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	p := newPlace(t)
	files(t, p.folder.Path, map[string]string{"a": "1", "closed/b": "2", "listed/c": "3", "entered/d": "4", "read/e": "5"})
	must(t, os.Chmod(p.path("a"), 0), os.Chmod(p.path("closed"), 0), os.Chmod(p.path("listed"), 0o400), os.Chmod(p.path("entered"), 0o300),
		os.Chmod(p.path("read/e"), 0o444), os.Chmod(p.path("read"), 0o555))
	t.Cleanup(func() {
		for _, name := range []string{"closed", "listed", "entered", "read"} {
			os.Chmod(p.path(name), 0o700)
		}
	})
	want := describe(t, p.folder.Path)
	made := p.create(t)
	left := []string{"a: may not be read", "closed: may not be read", "entered: may not be read", "listed/c: may not be read"}
	if d := cmp.Diff(left, made.Skipped); d != "" {
		t.Errorf("left out: -want +got\n%s", d)
	}
	must(t, os.Chmod(p.path("read"), 0o700), os.Remove(p.path("read/e")), os.WriteFile(p.path("read/new"), nil, 0o644))
	p.restore(t, made.ID)
	if d := cmp.Diff(want, describe(t, p.folder.Path)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	must(t, os.Chmod(p.folder.Path, 0o400))
	_, err := p.store.Create(t.Context(), p.request())
	must(t, os.Chmod(p.folder.Path, 0o755))
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("of a folder that can't be entered: %v", err)
	}
}

// TestDamaged: of a snapshot that is not whole nothing takes the place of what is there; the next one does without it.
func TestDamaged(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.store.Now = func() time.Time { return time.Now().Add(time.Hour) } // what was written now is old
	files(t, p.folder.Path, map[string]string{"a": "content", "b": "other"})
	made := p.create(t)
	kept := filepath.Join(p.store.Dir, "work", made.ID, "main")
	for _, name := range []string{"a", "b"} { // as a power cut may leave them
		must(t, os.Chmod(filepath.Join(kept, name), 0o600), os.Truncate(filepath.Join(kept, name), 2))
	}
	next := p.create(t)
	must(t, os.WriteFile(p.path("a"), []byte("changed"), 0o644))
	if _, err := p.store.Restore(t.Context(), "work", made.ID, p.request()); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("cut short: %v", err)
	}
	checkFiles(t, p.folder.Path, map[string]string{"a": "changed", "b": "other"})
	p.restore(t, next.ID)
	checkFiles(t, p.folder.Path, map[string]string{"a": "content", "b": "other"})
	record := kept + ".stat"
	whole, err := os.ReadFile(record)
	must(t, err, os.WriteFile(record, whole[:len(whole)-5], 0o600), os.WriteFile(p.path("a"), []byte("changed"), 0o644))
	if _, err := p.store.Restore(t.Context(), "work", made.ID, p.request()); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("without its record: %v", err)
	}
	checkFiles(t, p.folder.Path, map[string]string{"a": "changed", "b": "other"})
}

// TestFullDisk: there is no snapshot then, and those before are whole.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	p := newPlace(t)
	must(t, os.Mkdir(p.store.Dir, 0o700))
	if err := syscall.Mount("small", p.store.Dir, "tmpfs", 0, "size=1m,mode=700"); err != nil {
		t.Skipf("mounting a small file system: %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(p.store.Dir, syscall.MNT_DETACH)) })
	files(t, p.folder.Path, map[string]string{"a": "1"})
	made := p.create(t)
	files(t, p.folder.Path, map[string]string{"a": "2", "big": strings.Repeat("0123456789abcdef", 100_000)})
	_, err := p.store.Create(t.Context(), p.request())
	if !errors.Is(err, unix.ENOSPC) || store.Hint(err) == "" {
		t.Errorf("creating: %v", err)
	}
	if _, err := p.store.Restore(t.Context(), "work", made.ID, p.request()); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("restoring without room for what is now: %v", err)
	}
	if data, err := os.ReadFile(p.path("a")); err != nil || string(data) != "2" {
		t.Errorf("it was changed: %q, %v", data, err)
	}
	p.noneUnfinished(t)
	must(t, os.Remove(p.path("big")))
	p.restore(t, made.ID)
	checkFiles(t, p.folder.Path, map[string]string{"a": "1"})
}

// TestFullWorkspace: a restore for which there is no room says so, leaves no half file, and can be done again.
func TestFullWorkspace(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	p := newPlace(t)
	if err := syscall.Mount("small", p.folder.Path, "tmpfs", 0, "size=2m,mode=755"); err != nil {
		t.Skipf("mounting a small file system: %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(p.folder.Path, syscall.MNT_DETACH)) })
	p.folder.Ignored = func(path string) bool { return path == "filler" }
	large := strings.Repeat("0123456789abcdef", 40_000)
	want := map[string]string{"a": "1", "big": large, "linked/big": large}
	files(t, p.folder.Path, map[string]string{"a": "1", "big": large, "linked/": ""})
	must(t, os.Link(p.path("big"), p.path("linked/big")))
	made := p.create(t)
	must(t, os.RemoveAll(p.path("linked")), os.Remove(p.path("big")), os.WriteFile(p.path("a"), []byte("2"), 0o644))
	filler := make([]byte, 1<<20)
	must(t, os.WriteFile(p.path("filler"), append(filler, filler[:900_000]...), 0o644))
	if _, err := p.store.Restore(t.Context(), "work", made.ID, p.request()); !errors.Is(err, unix.ENOSPC) || store.Hint(err) == "" {
		t.Errorf("%v", err)
	}
	for path, what := range describe(t, p.folder.Path) {
		if strings.Contains(path, ".forage-") || strings.HasSuffix(path, "big") {
			t.Errorf("left: %s %s", path, what)
		}
	}
	must(t, os.Remove(p.path("filler")))
	p.restore(t, made.ID)
	checkFiles(t, p.folder.Path, want)
}

// noneUnfinished: nothing of what was to become a snapshot is left.
func (p place) noneUnfinished(t *testing.T) {
	t.Helper()
	if left, err := filepath.Glob(filepath.Join(p.store.Dir, ".tmp/*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
