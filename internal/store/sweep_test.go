package store_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"forage/internal/store"
	"forage/internal/testdir"
)

// TestSweep: what killed processes left goes, what is in use stays.
func TestSweep(t *testing.T) {
	s := open(t)
	create(t, s, "one")
	place := func(name string, age time.Duration) string {
		path := filepath.Join(s.Dir(), name)
		testdir.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		testdir.Must(t, os.WriteFile(path, nil, 0o600))
		then := time.Now().Add(-age)
		testdir.Must(t, os.Chtimes(path, then, then))
		return path
	}
	old := place("sandboxes/.tmp-old", time.Hour)
	fresh := place("sandboxes/.tmp-fresh", -time.Hour) // however long the next lines take
	place("sandboxes/.one.usage.json12", time.Hour)
	place(".id_ed25519123", time.Hour)
	place("repositories/.tmp-note", time.Hour)
	place("repositories/.recovery/.tmp-kept", time.Hour)
	place("repositories/one.json", time.Hour)
	place("locks/abandoned.lock", time.Hour)
	unlock, err := s.Lock(t.Context(), "held")
	testdir.Must(t, err)
	defer unlock()

	all := []string{".tmp-old", ".one.usage.json12", ".id_ed25519123", ".tmp-note", ".tmp-kept"}
	swept, err := s.Sweep(true)
	if diff := cmp.Diff(append([]string{"abandoned.lock"}, all...), swept); err != nil || diff != "" {
		t.Errorf("rehearsal: %v (-want +got):\n%s", err, diff)
	}
	if _, err := os.Stat(old); err != nil {
		t.Errorf("the rehearsal removed something: %v", err)
	}
	swept, err = s.Sweep(false)
	if diff := cmp.Diff(all, swept); err != nil || diff != "" {
		t.Errorf("sweep: %v (-want +got):\n%s", err, diff)
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("a half-written record is left: %v", err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("a record that is being written is gone: %v", err)
	}
	if _, ok, err := s.TryLock("held"); ok || err != nil {
		t.Errorf("a lock that is held was swept: %v", err)
	}
	if _, err := s.Load("one"); err != nil {
		t.Error(err)
	}
}

func TestMovePort(t *testing.T) {
	s := open(t)
	rec, err := s.Create(t.Context(), record("one"), ports)
	testdir.Must(t, err)
	moved, err := s.MovePort(t.Context(), rec, store.Ports{Listen: ports.Listen, From: ports.From, To: ports.To})
	if err != nil || moved.Port == rec.Port || moved.Port == 0 {
		t.Errorf("port %d after %d, %v", moved.Port, rec.Port, err)
	}
	if loaded, err := s.Load("one"); err != nil || !cmp.Equal(moved, loaded) {
		t.Errorf("what is on record is not what was returned: %v", err)
	}
}
