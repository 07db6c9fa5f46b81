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
		if peer, err := Peer(served); err != nil || int(peer.Uid) != os.Getuid() || int(peer.Pid) != os.Getpid() {
			t.Fatalf("Peer = %+v, %v; want this process", peer, err)
		}
	}
}
