package supervisor

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"forage/internal/audit"
)

// TestRelayFlood: clients of the SSH port can't fill the audit log.
func TestRelayFlood(t *testing.T) {
	var recorded atomic.Int64
	record := func(audit.Event) error { recorded.Add(1); return nil }
	r, err := newRelay("127.0.0.1", 0, func(context.Context) (net.Conn, error) { return nil, net.ErrClosed }, record)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	began := time.Now()
	for range 600 {
		conn, err := net.Dial("tcp", r.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.Read(make([]byte, 1)) // until it is closed: there is no guest
		conn.Close()
	}
	most := relayedBurst + int64(relayedPerSecond*time.Since(began).Seconds()) + 1
	if n := recorded.Load(); n == 0 || n > most {
		t.Errorf("600 connections at once left %d lines in the audit log, and not %d", n, most)
	}
}
