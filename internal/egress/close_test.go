package egress

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// mustClose fails where something of the engine does not end.
func (w *world) mustClose() {
	w.t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- w.engine.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			w.t.Errorf("closing: %v", err)
		}
	case <-time.After(patience):
		w.t.Fatal("the engine's end is waited for in vain")
	}
}

// TestTurnedAwayTakeNoRoom: connections that there is no room for are reset at once. Those whose
// lines in the audit log would have to wait are counted in the next line.
func TestTurnedAwayTakeNoRoom(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "full"), func(c *Config) { c.MaxConnections = 1 })
	w.engine.denials = rate.NewLimiter(rate.Every(time.Hour), 1)
	client, inside := tcpPair(t)
	defer client.Close()
	w.engine.ServeProxyConn(inside, nil, nil) // takes the place
	for n := range 4 {
		if n == 3 {
			w.engine.denials = rate.NewLimiter(rate.Every(time.Hour), 1)
		}
		client, inside := tcpPair(t)
		client.SetDeadline(time.Now().Add(patience))
		w.engine.ServeProxyConn(inside, nil, nil)
		expectReset(t, client)
	}
	var said []string
	for _, e := range w.log.all() {
		said = append(said, e.Rule+": "+e.Reason)
	}
	want := []string{
		"connection-limit: 1 connections are open",
		"connection-limit: 1 connections are open (and 2 connections were refused before this one)",
	}
	if denied := w.engine.Counters().Denied; denied != 4 || !slices.Equal(said, want) {
		t.Errorf("%d refusals, said as %q", denied, said)
	}
	w.mustClose()
}
