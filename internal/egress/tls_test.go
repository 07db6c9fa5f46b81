package egress

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"forage/internal/audit"
	"forage/internal/policy"
)

func TestTLS(t *testing.T) {
	cert, roots := certificate(t, "a.example", "b.example")
	start := func(t *testing.T, p policy.Policy) *world {
		w := newWorld(t, p, nil)
		w.name("a.example", public)
		w.serve(public+":443", tlsEcho(cert))
		return w
	}
	p := mustPolicy(t, "restricted", "a.example", public)
	hello := func(conn net.Conn, name string) error {
		secure := tls.Client(conn, &tls.Config{ServerName: name, RootCAs: roots, InsecureSkipVerify: name == ""})
		line, err := bufio.NewReader(secure).ReadString('\n')
		if err == nil && line != "hello\n" {
			err = errors.New("another line: " + line)
		}
		return err
	}
	t.Run("agrees", func(t *testing.T) {
		w := start(t, p)
		conn := w.toName("a.example", 443)
		if err := hello(conn, "a.example"); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if e := w.closed(audit.Connect); e.BytesIn == 0 || e.BytesOut == 0 || e.Host != "a.example" || e.Port != 443 {
			t.Errorf("%+v", e)
		}
	})
	t.Run("in another case", func(t *testing.T) {
		if err := hello(start(t, p).toName("a.example", 443), "A.Example"); err != nil && !strings.Contains(err.Error(), "certificate") {
			t.Fatal(err)
		}
	})
	t.Run("by address, without name", func(t *testing.T) {
		if err := hello(start(t, p).to(public+":443"), ""); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("by address, for an allowed name", func(t *testing.T) {
		if err := hello(start(t, p).to(public+":443"), "a.example"); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("through the proxy", func(t *testing.T) {
		conn, _, status := start(t, p).connectProxy("a.example:443")
		if !strings.Contains(status, "200") {
			t.Fatal(status)
		}
		if err := hello(conn, "a.example"); err != nil {
			t.Fatal(err)
		}
	})
	for name, tt := range map[string]struct {
		conn func(w *world) net.Conn
		sni  string
		rule string
	}{
		"another name":             {func(w *world) net.Conn { return w.toName("a.example", 443) }, "b.example", "sni-mismatch"},
		"a longer name":            {func(w *world) net.Conn { return w.toName("a.example", 443) }, "a.example.b.example", "sni-mismatch"},
		"no name":                  {func(w *world) net.Conn { return w.toName("a.example", 443) }, "", "sni-missing"},
		"by address, another name": {func(w *world) net.Conn { return w.to(public + ":443") }, "b.example", "sni-mismatch"},
		"through the proxy": {func(w *world) net.Conn {
			conn, _, _ := w.connectProxy("a.example:443")
			return conn
		}, "b.example", "sni-mismatch"},
	} {
		t.Run("disagrees: "+name, func(t *testing.T) {
			w := start(t, p)
			var received atomic.Int64
			w.serve(public+":443", func(conn net.Conn) {
				n, _ := io.Copy(io.Discard, conn)
				received.Add(n)
			})
			if err := hello(tt.conn(w), tt.sni); err == nil {
				t.Error("went through")
			}
			w.denied(tt.rule)
			w.engine.Close()
			w.stop() // now the server has read all that it was sent
			if n := received.Load(); n > 0 {
				t.Errorf("%d bytes reached the server", n)
			}
		})
	}
	for name, first := range map[string]string{"HTTP": "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "SSH": "SSH-2.0-x\r\n"} {
		t.Run("not TLS: "+name, func(t *testing.T) {
			w := start(t, p)
			conn := w.toName("a.example", 443)
			io.WriteString(conn, first)
			expectReset(t, conn)
			w.denied("not-tls")
			if _, dials := w.seen(); len(dials) > 0 {
				t.Errorf("dialled %v", dials)
			}
		})
	}
	t.Run("encrypted", func(t *testing.T) {
		for mode, refused := range map[string]bool{"restricted": true, "full": false} {
			w := start(t, mustPolicy(t, mode, "a.example"))
			conn := w.toName("a.example", 443)
			sendSplit(conn, withECH(t))
			if refused {
				expectReset(t, conn)
				w.denied("ech")
				continue
			}
			if _, err := conn.Read(make([]byte, 5)); err != nil {
				t.Errorf("%s: %v", mode, err)
			}
		}
	})
}

// A server that asks for another ClientHello is answered for the same name, or not at all.
func TestTLSRetry(t *testing.T) {
	cert, roots := certificate(t, "a.example")
	start := func() (*world, net.Conn) {
		w := newWorld(t, mustPolicy(t, "restricted", "a.example"), nil)
		w.name("a.example", public)
		w.serve(public+":443", func(conn net.Conn) { // asks, since it knows another curve alone
			secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}, CurvePreferences: []tls.CurveID{tls.CurveP521}})
			echo(secure)
			secure.Close()
		})
		return w, w.toName("a.example", 443)
	}
	config := &tls.Config{ServerName: "a.example", RootCAs: roots, CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP521}}
	_, conn := start()
	secure := tls.Client(conn, config)
	expectLine(t, bufio.NewReader(secure), "hello\n")
	if !secure.ConnectionState().HelloRetryRequest {
		t.Fatal("the server did not ask for another ClientHello")
	}
	w, conn := start()
	// The second ClientHello, changed on its way, names another server.
	secure = tls.Client(&secondHello{Conn: conn, change: func(b []byte) []byte {
		return bytes.ReplaceAll(b, []byte("a.example"), []byte("b.example"))
	}}, config)
	if err := secure.Handshake(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v", err)
	}
	w.denied("sni-mismatch")
}

// secondHello changes what a client writes after its first message.
type secondHello struct {
	net.Conn
	writes int
	change func([]byte) []byte
}

func (c *secondHello) Write(b []byte) (int, error) {
	if c.writes++; c.writes > 1 {
		return c.Conn.Write(c.change(b))
	}
	return c.Conn.Write(b)
}

// withECH is a ClientHello for a.example with an encrypted one inside.
func withECH(t *testing.T) []byte {
	t.Helper()
	// The config list is of a made-up server: what counts is the extension.
	config := &tls.Config{ServerName: "secret.example", MinVersion: tls.VersionTLS13, EncryptedClientHelloConfigList: echConfig(t, "a.example")}
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	go func() {
		tls.Client(client, config).Handshake()
		client.Close()
	}()
	header := make([]byte, 5)
	if _, err := io.ReadFull(server, header); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(header[3])<<8|int(header[4]))
	if _, err := io.ReadFull(server, body); err != nil {
		t.Fatal(err)
	}
	return append(header, body...)
}

// sendSplit sends a byte a segment at first, and the rest in two pieces.
func sendSplit(conn net.Conn, b []byte) {
	for i := range 100 {
		conn.Write(b[i : i+1])
	}
	conn.Write(b[100:200])
	conn.Write(b[200:])
}
