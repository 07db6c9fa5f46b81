package unixsock

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forage/internal/testdir"
)

func TestLongPathsConnect(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	testdir.Must(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "control.sock")
	for range 2 { // the second replaces what the first left
		listener, err := Listen(path)
		testdir.Must(t, err)
		defer listener.Close()
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("socket has mode %v (%v), want 0600", info.Mode(), err)
		}
		conn, err := Dial(t.Context(), path)
		testdir.Must(t, err)
		defer conn.Close()
		served, err := listener.AcceptUnix()
		testdir.Must(t, err)
		defer served.Close()
		if peer, err := Peer(served); err != nil || int(peer.Uid) != os.Getuid() || int(peer.Pid) != os.Getpid() {
			t.Fatalf("Peer = %+v, %v; want this process", peer, err)
		}
	}
}
