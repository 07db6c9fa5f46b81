package egress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"forage/internal/audit"
	"forage/internal/netns"
	"forage/internal/policy"
)

func TestSetPolicy(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "keep.example:22", "drop.example:22", "named.example:22"), nil)
	w.name("keep.example", public)
	w.name("drop.example", public)
	w.name("named.example", "10.0.0.1")
	w.serve(public+":22", echo)
	w.serve("10.0.0.1:22", echo)
	open := func(host string) (net.Conn, *bufio.Reader) {
		conn := w.toName(host, 22)
		r := bufio.NewReader(conn)
		expectLine(t, r, "hello\n")
		return conn, r
	}
	keep, keepReader := open("keep.example")
	drop, _ := open("drop.example")
	named, _ := open("named.example")
	w.engine.SetPolicy(mustPolicy(t, "restricted", "keep.example", "*.example"))
	// drop.example is still below the wildcard, named.example too, but its private address is not
	// named.
	expectReset(t, named)
	io.WriteString(drop, "still\n")
	expectLine(t, bufio.NewReader(drop), "still\n")
	w.engine.SetPolicy(mustPolicy(t, "restricted", "keep.example"))
	expectReset(t, drop)
	io.WriteString(keep, "still\n")
	expectLine(t, keepReader, "still\n")
	if e := w.denied(policy.RuleDefaultDeny); e.Host != "drop.example" || !strings.Contains(e.Reason, "changed") {
		t.Errorf("%+v", e)
	}
	w.engine.SetPolicy(policy.Policy{})
	expectReset(t, keep)
	if m := w.ask("keep.example", dnsmessage.TypeA); m.RCode != dnsmessage.RCodeNameError {
		t.Errorf("%v", m.RCode)
	}
}

// A change while a connection is being made is not overlooked.
func TestSetPolicyWhileDialling(t *testing.T) {
	for name, tt := range map[string]struct {
		after  []string
		answer string
	}{
		"nothing is allowed":  {nil, public},
		"no longer with port": {[]string{"*.example"}, "10.0.0.1"},
	} {
		started, changed := make(chan struct{}), make(chan struct{})
		w := newWorld(t, mustPolicy(t, "restricted", "a.example:22"), func(c *Config) {
			c.Lookup = func(context.Context, string) ([]netip.Addr, error) {
				close(started)
				<-changed
				return []netip.Addr{netip.MustParseAddr(tt.answer)}, nil
			}
		})
		w.serve(tt.answer+":22", echo)
		conn := w.toName("a.example", 22)
		<-started
		w.engine.SetPolicy(mustPolicy(t, "restricted", tt.after...))
		close(changed)
		expectReset(t, conn)
		w.stop()
		if _, dials := w.seen(); len(dials) > 0 {
			t.Errorf("%s: dialled %v", name, dials)
		}
	}
}

func TestConnectionLimit(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "full"), func(c *Config) { c.MaxConnections = 3 })
	w.name("a.example", public)
	w.serve(public+":22", echo)
	var conns []net.Conn
	for range 3 {
		conn := w.toName("a.example", 22)
		expectLine(t, bufio.NewReader(conn), "hello\n")
		conns = append(conns, conn)
	}
	if conn, err := net.Dial("tcp", w.proxy.Addr().String()); err == nil { // the reset may be faster
		expectReset(t, conn)
		conn.Close()
	}
	w.denied("connection-limit")
	conns[0].Close()
	w.closed(audit.Connect)
	eventually(t, "room for another", func() bool { return w.engine.Counters().Open <= 2 })
	expectLine(t, bufio.NewReader(w.toName("a.example", 22)), "hello\n")
}

// Clients that say nothing do not stay.
func TestSilentClients(t *testing.T) {
	w := newWorld(t, looked(t, inspected("a.example")), func(c *Config) { c.SniffTimeout = 200 * time.Millisecond })
	// tunnel has been asked for already when it begins: on a busy machine the time is over before
	// a client has said more.
	tunnel := func(authority string) net.Conn {
		client, server := tcpPair(t)
		client.SetDeadline(time.Now().Add(patience))
		w.engine.ServeProxyConn(server, []byte("CONNECT "+authority+" HTTP/1.1\r\n\r\n"), nil)
		const established = "HTTP/1.1 200 Connection established\r\n\r\n"
		if got, err := io.ReadAll(io.LimitReader(client, int64(len(established)))); string(got) != established {
			t.Fatalf("%s: %q, %v", authority, got, err)
		}
		return client
	}
	expectReset(t, tunnel("a.example:443"))
	w.denied("sniff-timeout")
	trickling := tunnel("a.example:443")
	if _, err := trickling.Write([]byte{22, 3}); err == nil { // else the reset was faster
		expectReset(t, trickling)
	}
	for _, start := range []string{"", "GET / HT"} {
		for name, conn := range map[string]net.Conn{"HTTP": tunnel("a.example:80"), "the proxy": w.connect(w.proxy), "PROXY header": w.connect(w.forwarded)} {
			io.WriteString(conn, start)
			if got, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) || bytes.Contains(got, []byte(" 200 ")) {
				t.Errorf("%s, after %q: %q, %v", name, start, got, err)
			}
		}
	}
	if _, dials := w.seen(); len(dials) > 0 {
		t.Errorf("dialled %v", dials)
	}
}

// Close ends everything: connections in every state, and all goroutines.
func TestCloseLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	w := newWorld(t, mustPolicy(t, "full"), nil)
	w.name("a.example", public)
	w.name("dead.example", "93.184.216.99")
	w.serve(public+":22", echo)
	w.serve(public+":80", func(conn net.Conn) { io.Copy(io.Discard, conn) })
	w.servers[netip.MustParseAddrPort("93.184.216.99:22")] = ""
	spliced := w.toName("a.example", 22)
	expectLine(t, bufio.NewReader(spliced), "hello\n")
	conns := []net.Conn{spliced, w.toName("a.example", 443), w.toName("a.example", 80), w.toName("dead.example", 22),
		w.connect(w.proxy), w.connect(w.forwarded), w.connect(w.dnsStream)}
	waiting := w.connect(w.proxy)
	io.WriteString(waiting, "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n")
	tunnel, _, status := w.connectProxy("a.example:22")
	if !strings.Contains(status, "200") {
		t.Fatal(status)
	}
	if err := w.engine.Close(); err != nil {
		t.Error(err)
	}
	for i, conn := range append(conns, waiting, tunnel) {
		if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("connection %d is still open", i)
		}
		conn.Close()
	}
	if c := w.engine.Counters(); c.Open != 0 {
		t.Errorf("%+v", c)
	}
	w.engine.SetPolicy(policy.Policy{}) // harmless
	w.engine.Serve(netns.Listeners{})
	w.stop()
	eventually(t, "end of all goroutines", func() bool { return runtime.NumGoroutine() <= before })
}
