package unixsock

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLongPathsConnect(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "control.sock")
	for range 2 { // the second replaces what the first left
		listener, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("socket has mode %v (%v), want 0600", info.Mode(), err)
		}
		conn, err := Dial(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		served, err := listener.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		defer served.Close()
		if uid, err := PeerUID(served); err != nil || uid != os.Getuid() {
			t.Fatalf("PeerUID = %d, %v; want %d", uid, err, os.Getuid())
		}
	}
}
