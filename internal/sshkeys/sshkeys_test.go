package sshkeys

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"forage"
	"forage/internal/testdir"
)

func TestClientIsMadeOnceHoweverManyAsk(t *testing.T) {
	dir := t.TempDir()
	lines := make([]string, 20)
	var wait sync.WaitGroup
	for i := range lines {
		wait.Go(func() {
			signer, err := Client(dir)
			if err != nil {
				t.Error(err)
				return
			}
			lines[i] = Line(signer.PublicKey())
		})
	}
	wait.Wait()
	for _, line := range lines {
		if line != lines[0] {
			t.Fatalf("two clients hold different keys: %q and %q", line, lines[0])
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Fatalf("the folder holds %v (%v), want the key pair alone", entries, err)
	}
	public, err := ReadPublic(filepath.Join(dir, ClientName+".pub"))
	if err != nil || len(public) != 1 || public[0] != lines[0] {
		t.Fatalf("public half is %v (%v), want %q", public, err, lines[0])
	}
}

// TestNoPlaceForTheKey: the first thing that is kept says where else it can be. Nobody makes
// folders in /proc.
func TestNoPlaceForTheKey(t *testing.T) {
	if _, err := Client("/proc/forage/state"); !strings.Contains(forage.Hint(err), "FORAGE_STATE_DIR") {
		t.Errorf("%v, with the hint %q", err, forage.Hint(err))
	}
}

func TestKeysOpenToOthersAreRefused(t *testing.T) {
	dir := t.TempDir()
	if _, err := Client(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, ClientName)
	testdir.Must(t, os.Chmod(path, 0o644))
	if _, err := Client(dir); err == nil || forage.Hint(err) == "" {
		t.Fatalf("a key that everybody may read: %v, want an error with a hint", err)
	}
	os.Remove(path)
	testdir.Must(t, os.Symlink("/dev/null", path))
	if _, err := Client(dir); err == nil {
		t.Fatal("a link was followed")
	}
}

func TestHostKeyRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host_key")
	key, err := NewHost()
	testdir.Must(t, err)
	testdir.Must(t, SaveHost(path, key))
	loaded, err := LoadHost(path)
	if err != nil || !bytes.Equal(loaded, key) {
		t.Fatalf("LoadHost = %x, %v; want %x", loaded, err, key)
	}
	line, err := HostLine(key)
	testdir.Must(t, err)
	if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line)); err != nil {
		t.Fatalf("HostLine gave %q: %v", line, err)
	}
	os.WriteFile(path, key[:5], 0o600)
	if _, err := LoadHost(path); err == nil {
		t.Fatal("a cut key was accepted")
	}
}

func TestReadPublicRefusesWhatIsNoPublicKey(t *testing.T) {
	dir := t.TempDir()
	if _, err := Client(dir); err != nil {
		t.Fatal(err)
	}
	empty, text := filepath.Join(dir, "empty"), filepath.Join(dir, "text")
	os.WriteFile(empty, nil, 0o600)
	os.WriteFile(text, []byte("hello\n"), 0o600)
	for _, path := range []string{filepath.Join(dir, ClientName), empty, text, filepath.Join(dir, "absent")} {
		if lines, err := ReadPublic(path); forage.ExitCode(err) != 64 {
			t.Errorf("ReadPublic(%s) = %v, %v; want a usage error", filepath.Base(path), lines, err)
		}
	}
}
