package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"forage"
	"forage/internal/store"
	"forage/internal/testdir"
)

func open(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "state"))
	testdir.Must(t, err)
	return s
}

func record(name string) store.Record {
	return store.Record{
		Name: name, Template: "generic", Runtime: "native",
		Workspace: "/home/user/project", WorkspaceMode: forage.WorkspaceDirect,
		CreatedAt: time.Date(2026, 1, 15, 10, 30, 0, 0, time.UTC),
		Phase:     forage.PhaseCreating,
		Plan:      forage.Plan{Name: name, Template: "generic", Runtime: "native"},
	}
}

func TestCreateLoadSaveDelete(t *testing.T) {
	s := open(t)
	created, err := s.Create(t.Context(), record("one"), store.Ports{})
	testdir.Must(t, err)
	want := record("one")
	want.Version, want.NetworkSlot = store.Version, 1
	testdir.Same(t, "created", want, created)
	created.Phase = forage.PhaseRunning
	created.StartedAt = created.CreatedAt.Add(time.Second)
	testdir.Must(t, s.Save(created))
	loaded, err := s.Load("one")
	testdir.Must(t, err)
	testdir.Same(t, "loaded", created, loaded)
	testdir.Must(t, s.Delete("one", false))
	if err := s.Delete("one", false); err != nil {
		t.Errorf("deleting an absent sandbox: %v", err)
	}
	if _, err := s.Load("one"); !errors.Is(err, forage.ErrNotFound) {
		t.Errorf("loading a deleted sandbox: %v", err)
	}
	testdir.Fails(t, "saving a deleted sandbox", forage.ErrNotFound, s.Save(created))
}

func TestCreateRefusesNameInUse(t *testing.T) {
	s := open(t)
	if _, err := s.Create(t.Context(), record("one"), store.Ports{}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Create(t.Context(), record("one"), store.Ports{})
	if !errors.Is(err, forage.ErrRefused) || forage.Hint(err) == "" {
		t.Errorf("got %v (hint %q)", err, forage.Hint(err))
	}
	// A broken record holds its name too.
	testdir.Must(t, os.WriteFile(s.Paths("two").Record, []byte("{"), 0o600))
	if _, err := s.Create(t.Context(), record("two"), store.Ports{}); !errors.Is(err, forage.ErrRefused) {
		t.Errorf("over a broken record: %v", err)
	}
}

func TestEverythingIsPrivate(t *testing.T) {
	s := open(t)
	if _, err := s.Create(t.Context(), record("one"), store.Ports{}); err != nil {
		t.Fatal(err)
	}
	err := filepath.Walk(s.Dir(), func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	testdir.Must(t, err)
}

func TestNamesThatAreNotNames(t *testing.T) {
	s := open(t)
	for _, name := range []string{"", "../x", ".store", "A", "a/b", "a\x00"} {
		if _, err := s.Create(t.Context(), record(name), store.Ports{}); !errors.Is(err, forage.ErrUsage) {
			t.Errorf("Create(%q): %v", name, err)
		}
		if _, err := s.Load(name); !errors.Is(err, forage.ErrUsage) {
			t.Errorf("Load(%q): %v", name, err)
		}
		if err := s.Delete(name, false); !errors.Is(err, forage.ErrUsage) {
			t.Errorf("Delete(%q): %v", name, err)
		}
		if _, err := s.Lock(t.Context(), name); !errors.Is(err, forage.ErrUsage) {
			t.Errorf("Lock(%q): %v", name, err)
		}
	}
}
