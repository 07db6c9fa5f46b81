package fault

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"forage/internal/testdir"
	"forage/internal/testgit"
)

// smallDisk makes a folder that is a filesystem of that size, which takes root.
func (w *world) smallDisk(folder, size string) {
	w.t.Helper()
	if os.Getuid() != 0 {
		w.t.Skip("mounting a small filesystem takes root")
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := unix.Mount("small", folder, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := unix.Unmount(folder, 0); err != nil {
			w.t.Error(err)
		}
	})
}

// fill leaves no room on a folder's disk.
func (w *world) fill(folder string) (free func()) {
	w.t.Helper()
	path := filepath.Join(folder, "filler")
	file, err := os.Create(path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer file.Close()
	for err == nil {
		_, err = file.Write(bytes.Repeat([]byte("x"), 4096))
	}
	return func() { os.Remove(path) }
}

func TestFullDisk(t *testing.T) {
	w := newWorld(t)
	w.smallDisk(w.state, "1m")
	w.must("up", "before")
	free := w.fill(w.state)
	exit, out := w.run("up", "box")
	if exit == 0 || !strings.Contains(out, "no space left") {
		t.Errorf("up on a full disk: exit %d\n%s", exit, out)
	}
	if exit, out := w.run("run", "-w", ".", "--", "true"); exit == 0 {
		t.Errorf("run on a full disk, where nothing can be put on record:\n%s", out)
	}
	if out := w.must("ps"); !strings.Contains(out, "before") || strings.Contains(out, "box") {
		t.Errorf("after a failed up on a full disk:\n%s", out)
	}
	// What can't be recorded does not happen: at the latest when the log's last page is full.
	refused := false
	for range 50 {
		exit, _ := w.run("exec", "before", "--", "true")
		refused = refused || exit != 0
	}
	if !refused {
		t.Error("fifty execs without room for their audit lines")
	}
	free()
	w.must("exec", "before", "--", "true")
	w.must("up", "box")
	w.must("down", "--all")
	w.clean()
}

// A full disk of the repository's, and of the state folder: what fails says so, leaves nothing, loses nothing, and can be done again.
func TestFullDiskLosesNoWork(t *testing.T) {
	w := newWorld(t)
	disk := filepath.Join(w.base, "disk")
	w.smallDisk(disk, "8m")
	w.smallDisk(w.state, "48m")
	repo := testgit.Init(t, disk)
	repo.Commit("file", "text")
	testdir.Must(t, os.WriteFile(filepath.Join(w.home, ".gitconfig"), []byte("[user]\n\tname = A\n\temail = a@example.com\n"), 0o600))
	fails := func(args ...string) {
		t.Helper()
		if exit, out := w.run(args...); exit == 0 || !strings.Contains(out, "no space left") || !strings.Contains(out, "free some space") {
			t.Errorf("%q on a full disk: exit %d\n%s", args, exit, out)
		}
	}
	files := func(folder string) (names []string) {
		testdir.Must(t, filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
			names = append(names, path)
			return err
		}))
		return names
	}
	work := func(script string) string { t.Helper(); return w.must("exec", "box", "--", "sh", "-ec", script) }
	w.must("up", "box", "--git-worktree", repo.Dir)
	metadata := filepath.Join(repo.Dir, ".git")
	before, free := files(metadata), w.fill(disk)
	for range 3 { // each is tried anew
		out := work("head -c 300000 /dev/urandom >>big; git add big; git commit -qm big")
		if !strings.Contains(out, "no space left") || !strings.Contains(out, "free some space") {
			t.Errorf("an import to a full disk says\n%s", out)
		}
	}
	fails("apply", "box")
	if diff := cmp.Diff(before, files(metadata)); diff != "" {
		t.Errorf("an import to a full disk left (-before +after)\n%s", diff)
	}
	free()
	w.must("apply", "box")
	if log := repo.Git("log", "--format=%s", "main"); log != "big\nbig\nbig\nchange file" {
		t.Errorf("applied are %q", log)
	}
	repo.Git("fsck", "--strict")

	was := work("echo new >new; head -c 6000000 /dev/urandom >large; cksum *")
	free = w.fill(w.state)
	fails("snapshot", "box", "create")
	fails("apply", "box")
	free()
	if left := files(filepath.Join(w.state, "snapshots/.tmp")); len(left) > 1 {
		t.Errorf("a snapshot on a full disk left %q", left)
	}
	w.must("snapshot", "box", "create", "--label", "one")
	now := work("head -c 5000000 /dev/urandom >large; echo only >only; cksum *")
	free = w.fill(w.state)
	fails("snapshot", "box", "restore", "one")
	if got := work("cksum *"); got != now {
		t.Errorf("a restore on a full disk made\n%s of\n%s", got, now)
	}
	free()
	w.must("snapshot", "box", "restore", "one")
	if got := work("cksum *"); got != was {
		t.Errorf("restored is\n%s which was\n%s", got, was)
	}
	w.must("down", "--all", "--force")
}

func TestReadOnlyState(t *testing.T) {
	w := newWorld(t)
	w.smallDisk(w.state, "1m")
	w.must("up", "before")
	w.must("stop", "before")
	w.await("the supervisor, which has a file open there, to end", func() bool { reap(); return len(processes()) == 0 })
	// The kernel takes the mounts of an ended namespace apart after its last process: until then
	// the disk has a writer.
	w.await("the state folder to become read-only", func() bool {
		err := unix.Mount("", w.state, "", unix.MS_REMOUNT|unix.MS_RDONLY, "mode=0700,size=1m")
		if err != nil && !errors.Is(err, unix.EBUSY) {
			t.Fatal(err)
		}
		return err == nil
	})
	for _, args := range [][]string{{"up", "box"}, {"start", "before"}, {"down", "before"}, {"run", "-w", ".", "--", "true"}} {
		if exit, out := w.run(args...); exit == 0 || !strings.Contains(out, "read-only") {
			t.Errorf("%q in a read-only state folder: exit %d\n%s", args, exit, out)
		}
	}
	if out := w.must("ps"); !strings.Contains(out, "before") {
		t.Errorf("ps in a read-only state folder:\n%s", out)
	}
	testdir.Must(t, unix.Mount("", w.state, "", unix.MS_REMOUNT, "mode=0700,size=1m"))
	w.must("down", "before")
	w.clean()
}

func TestCorruptedRecord(t *testing.T) {
	w := newWorld(t)
	w.must("up", "good")
	w.must("up", "bad")
	path := filepath.Join(w.state, "sandboxes", "bad.json")
	record, err := os.ReadFile(path)
	testdir.Must(t, err)
	for name, text := range map[string]string{
		"empty": "", "cut": string(record[:len(record)/2]), "nonsense": "\x00\x1b[31m{{", "another's": strings.ReplaceAll(string(record), `"bad"`, `"good"`),
		"newer": strings.Replace(string(record), `"version":1`, `"version":99`, 1), "a list": "[]",
	} {
		testdir.Must(t, os.WriteFile(path, []byte(text), 0o600))
		if out := w.must("ps"); !strings.Contains(out, "good") || !strings.Contains(out, "bad") {
			t.Errorf("ps with a record that is %s:\n%s", name, out)
		} else if strings.Contains(out, "\x1b") {
			t.Errorf("ps printed what the record holds: %q", out)
		}
		if out := w.must("gc"); !strings.Contains(out, "bad") {
			t.Errorf("gc with a record that is %s:\n%s", name, out)
		}
		for _, args := range [][]string{{"up", "bad"}, {"down", "bad"}, {"start", "bad"}} {
			if exit, out := w.run(args...); exit == 0 {
				t.Errorf("%q with a record that is %s:\n%s", args, name, out)
			}
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != text {
			t.Errorf("the record that is %s was changed (%v)", name, err)
		}
		w.must("exec", "good", "--", "true")
	}
	testdir.Must(t, os.WriteFile(path, record, 0o600))
	w.must("down", "--all")
	w.clean()
}
