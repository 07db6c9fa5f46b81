package accept

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// crowdedListener has no descriptor for the first connections, and then one.
type crowdedListener struct {
	net.Listener
	refusals int
	conns    chan net.Conn
}

func (l *crowdedListener) Accept() (net.Conn, error) {
	if l.refusals > 0 {
		l.refusals--
		return nil, &net.OpError{Op: "accept", Err: unix.EMFILE}
	}
	if conn, ok := <-l.conns; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

// TestOutlivesACrowd: a moment without descriptors doesn't close a door for good.
func TestOutlivesACrowd(t *testing.T) {
	listener := &crowdedListener{refusals: 2, conns: make(chan net.Conn, 1)}
	conn, other := net.Pipe()
	defer other.Close()
	listener.conns <- conn
	close(listener.conns)
	served := 0
	Each(nil, listener, func(conn net.Conn) { served++; conn.Close() })
	if served != 1 {
		t.Errorf("%d connections were served after a moment without descriptors, want 1", served)
	}
}

// TestEndsInACrowd: Close waits for it.
func TestEndsInACrowd(t *testing.T) {
	done := make(chan struct{})
	close(done)
	Each(done, &crowdedListener{refusals: 1 << 30}, func(net.Conn) { t.Error("something was served") })
}
