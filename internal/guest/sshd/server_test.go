package sshd

import (
	"crypto/ed25519"
	"io"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"forage/internal/guest/wire"
)

// crowdedListener has no descriptor for the first connection.
type crowdedListener struct {
	net.Listener
	refused bool
	conn    net.Conn
}

func (l *crowdedListener) Accept() (net.Conn, error) {
	if !l.refused {
		l.refused = true
		return nil, &net.OpError{Op: "accept", Err: unix.EMFILE}
	}
	if conn := l.conn; conn != nil {
		l.conn = nil
		return conn, nil
	}
	return nil, net.ErrClosed
}

// TestServeOutlivesACrowd: a moment without descriptors doesn't lock everybody out for good.
func TestServeOutlivesACrowd(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	server, err := New(Options{HostKey: key})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, conn := net.Pipe()
	defer client.Close()
	listener := &crowdedListener{conn: conn}
	server.Serve(listener)
	if listener.conn != nil {
		t.Fatal("the server let nobody in after a moment without descriptors")
	}
	if err := wire.Dial(client, wire.SSH); err != nil {
		t.Fatal(err)
	}
	greeting := make([]byte, len(version))
	if _, err := io.ReadFull(client, greeting); err != nil || string(greeting) != version {
		t.Errorf("the server greets with %q (%v)", greeting, err)
	}
}
