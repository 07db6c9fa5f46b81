package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage"
	"forage/internal/store"
	"forage/internal/testdir"
)

func create(t *testing.T, s *store.Store, name string) store.Record {
	t.Helper()
	rec, err := s.Create(t.Context(), record(name), store.Ports{})
	testdir.Must(t, err)
	return rec
}

// TestBrokenRecordsHideNothing: each is reported by name and why, and the
// others are still there.
func TestBrokenRecordsHideNothing(t *testing.T) {
	s := open(t)
	good := create(t, s, "good")
	create(t, s, "template")
	text, err := os.ReadFile(s.Paths("template").Record)
	testdir.Must(t, err)
	change := func(from, to string) string {
		changed := strings.Replace(string(text), from, to, 1)
		if changed == string(text) {
			t.Fatalf("%q is not in %s", from, text)
		}
		return changed
	}
	want := map[string]string{}
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "damaged"},
		{"zeroes", strings.Repeat("\x00", 100), "damaged"},
		{"cut", string(text[:len(text)/2]), "damaged"},
		{"list", "[]", "damaged"},
		{"newer", change(`"version":1`, `"version":2`), "version 2"},
		{"noversion", change(`"version":1,`, ``), "version is 0"},
		{"unknown", change(`"version":1`, `"version":1,"x":1`), `unknown field "x"`},
		{"type", change(`"networkSlot":2`, `"networkSlot":"2"`), "damaged"},
		{"twofold", string(text) + "{}", "damaged"},
		{"renamed", string(text), `called "template"`},
	} {
		testdir.Must(t, os.WriteFile(s.Paths(test.name).Record, []byte(test.text), 0o600))
		want[test.name] = test.want
	}
	plant := map[string]func(path string) error{
		"link":   func(p string) error { return os.Symlink(s.Paths("good").Record, p) },
		"folder": func(p string) error { return os.Mkdir(p, 0o700) },
		"fifo":   func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"huge":   func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o600), os.Truncate(p, 1<<40)) },
	}
	for name, f := range plant {
		testdir.Must(t, f(s.Paths(name).Record))
		want[name] = ""
	}
	records, broken, err := s.List()
	testdir.Must(t, err)
	if len(records) != 2 || !cmp.Equal(records[0], good) {
		t.Errorf("%d records are left", len(records))
	}
	for _, b := range broken {
		if why, ok := want[b.Name]; !ok || !strings.Contains(b.Error(), why) || !strings.Contains(b.Error(), b.Name) {
			t.Errorf("%s: %v, want %q", b.Name, b, why)
		}
		delete(want, b.Name)
		if _, err := s.Load(b.Name); forage.ExitCode(err) != 1 {
			t.Errorf("loading %s: %v", b.Name, err)
		}
	}
	if len(want) > 0 {
		t.Errorf("not reported: %v", want)
	}
	// A new sandbox can still be made beside them.
	create(t, s, "beside")
}

// TestStrangersAreNotRecords: other files in the folder are no records.
func TestStrangersAreNotRecords(t *testing.T) {
	s := open(t)
	create(t, s, "one")
	for _, name := range []string{".tmp-123", "UPPER.json", ".hidden.json", "one.audit.jsonl", "one.log", "a b.json"} {
		testdir.Must(t, os.WriteFile(filepath.Join(s.Dir(), "sandboxes", name), []byte("{}"), 0o600))
	}
	records, broken, err := s.List()
	if err != nil || len(records) != 1 || len(broken) != 0 {
		t.Errorf("%d records, %v, %v", len(records), broken, err)
	}
}

// TestFullDisk: on a file system of a few pages, nothing that was there is lost.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("small", dir, "tmpfs", 0, "size=64k,mode=700"); err != nil {
		t.Skipf("mounting a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s, err := store.Open(filepath.Join(dir, "state"))
	testdir.Must(t, err)
	for _, ephemeral := range []bool{false, true} {
		name := map[bool]string{false: "kept", true: "run"}[ephemeral]
		rec := record(name)
		rec.Plan.Ephemeral = ephemeral
		if rec, err = s.Create(t.Context(), rec, store.Ports{}); err != nil {
			t.Fatal(err)
		}
		fill := filepath.Join(dir, "fill")
		os.WriteFile(fill, make([]byte, 1<<20), 0o600) // as much as there is room for
		changed := rec
		changed.Reason = strings.Repeat("x", 8192)
		err = s.Save(changed)
		checkFull(t, "saving", err)
		if got, err := s.Load(name); err != nil || !cmp.Equal(rec, got) {
			t.Errorf("the old record is gone: %v", err)
		}
		_, err = s.Create(t.Context(), record("new"), store.Ports{})
		checkFull(t, "creating", err)
		if _, err := s.Load("new"); !errors.Is(err, forage.ErrNotFound) {
			t.Errorf("what could not be made is there: %v", err)
		}
		checkLeftovers(t, s)
		testdir.Must(t, os.Remove(fill))
		if err := s.Save(changed); err != nil {
			t.Errorf("with room again: %v", err)
		}
		if err := s.Delete(name, false); err != nil {
			t.Error(err)
		}
	}
}

func checkFull(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, syscall.ENOSPC) || store.Hint(err) == "" {
		t.Errorf("%s: %v (hint %q)", what, err, store.Hint(err))
	}
}

func checkLeftovers(t *testing.T, s *store.Store) {
	t.Helper()
	for _, pattern := range []string{"sandboxes/.tmp-*", "locks/*", "locks/.*"} {
		if found, err := filepath.Glob(filepath.Join(s.Dir(), pattern)); err != nil || len(found) > 0 {
			t.Errorf("left behind: %v, %v", found, err)
		}
	}
}
