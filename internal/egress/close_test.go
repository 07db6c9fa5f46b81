package egress

import (
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

// TestTurnedAwayTakeNoRoom: connections that there is no room for are reset at once, however long their lines in the audit log
// have to wait, and not all of them wait.
func TestTurnedAwayTakeNoRoom(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "full"), func(c *Config) { c.MaxConnections = 1 })
	w.engine.denials = rate.NewLimiter(rate.Every(time.Hour), 1)
	w.engine.denials.Allow() // so that each has to wait
	client, inside := tcpPair(t)
	defer client.Close()
	w.engine.ServeProxyConn(inside, nil, nil) // takes the place
	served := make(chan struct{}, maxTurnedAway+1)
	for range maxTurnedAway + 1 {
		client, inside := tcpPair(t)
		client.SetDeadline(time.Now().Add(patience))
		go func() { w.engine.ServeProxyConn(inside, nil, nil); served <- struct{}{} }()
		expectReset(t, client)
	}
	for range maxTurnedAway + 1 {
		select {
		case <-served:
		case <-time.After(patience):
			t.Fatal("a refusal is waited for in vain")
		}
		w.mustClose() // which ends the others
	}
	lines := 0
	for _, e := range w.log.all() {
		if e.Rule == "connection-limit" {
			lines++
		}
	}
	if denied := w.engine.Counters().Denied; lines != maxTurnedAway || denied != maxTurnedAway+1 {
		t.Errorf("%d refusals have %d lines, want %d that have %d", denied, lines, maxTurnedAway+1, maxTurnedAway)
	}
}
