package egress

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"forage"
	"forage/internal/audit"
	"forage/internal/policy"
)

// TestCloseEndsDials: nobody waits for a server, or a proxy before it, that doesn't answer, once nobody wants it any more.
func TestCloseEndsDials(t *testing.T) {
	for _, proxy := range []string{"", "http://10.9.9.9:3128"} {
		allowed := mustPolicy(t, "restricted", "a.example:80")
		dialling := make(chan struct{}, 1)
		w := newWorld(t, allowed, func(c *Config) {
			if proxy != "" {
				c.UpstreamProxy, _ = url.Parse(proxy)
			}
			c.Dial = func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
				dialling <- struct{}{}
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		w.name("a.example", "93.184.216.34")
		fmt.Fprint(w.connect(w.proxy), "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n")
		select {
		case <-dialling:
		case <-time.After(patience):
			t.Fatal("nothing is dialled")
		}
		w.engine.SetPolicy(allowed) // so that the transport is one of those that were replaced
		w.mustClose()
	}
}

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

// deafConn is a connection to somebody who takes nothing any more once told so.
type deafConn struct {
	net.Conn
	deaf   *atomic.Bool
	closed chan struct{}
	once   *sync.Once
}

func (c deafConn) Write(p []byte) (int, error) {
	if c.deaf.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func (c deafConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// TestSetPolicyWaitsForNoServer: a connection that is kept for the next request is closed when the policy changes. Its server
// may take no goodbye, which holds up nothing that has to be cut.
func TestSetPolicyWaitsForNoServer(t *testing.T) {
	var deaf atomic.Bool
	s := newSecureWorld(t, looked(t, inspected("a.example"), forage.Rule{Host: "b.example:22"}), func(c *Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
			conn, err := dial(ctx, addr)
			return deafConn{conn, &deaf, make(chan struct{}), new(sync.Once)}, err
		}
	})
	s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "answer") }), "http/1.1")
	s.serve(public+":22", echo)
	res, err := s.client(false).Get("https://a.example/")
	if status, _ := answer(t, res, err); status != http.StatusOK {
		t.Fatal(status)
	}
	s.closed(audit.HTTP)
	conn := s.toName("b.example", 22)
	expectLine(t, bufio.NewReader(conn), "hello\n")
	deaf.Store(true)
	set := make(chan struct{})
	go func() { s.engine.SetPolicy(policy.Policy{}); close(set) }()
	expectReset(t, conn)
	select {
	case <-set:
	case <-time.After(patience):
		t.Error("a change of the policy waits for a server")
	}
	s.mustClose()
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
