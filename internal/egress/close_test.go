package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"testing"
	"time"
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
