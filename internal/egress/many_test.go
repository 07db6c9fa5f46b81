package egress

import (
	"io"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"forage"
)

// hold puts a server at an address that does nothing with its connections.
func (w *world) hold(addr string, held chan net.Conn) {
	w.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			held <- conn
		}
	}()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers[netip.MustParseAddrPort(addr)] = listener.Addr().String()
	w.stops = append(w.stops, func() {
		listener.Close()
		<-done
		close(held)
		for conn := range held {
			conn.Close()
		}
	})
}

// Thousands of connections that do nothing cost little, whatever they are, and
// those beyond the bound are reset.
func TestManyIdle(t *testing.T) {
	const many, beyond, most = 2000, 100, 64 << 20
	const descriptors = 5 * many // both ends of both connections, and others
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < descriptors {
		t.Skipf("needs %d descriptors, and may have %d (%v): raise ulimit -Hn", descriptors, limit.Cur, err)
	}
	for name, open := range map[string]func(s *secureWorld) net.Conn{
		"tunnels": func(s *secureWorld) net.Conn {
			conn := s.connect(s.proxy)
			io.WriteString(conn, "CONNECT b.example:22 HTTP/1.1\r\nHost: b.example:22\r\n\r\n")
			return conn
		},
		"silent": func(s *secureWorld) net.Conn { return s.toName("a.example", 443) },
		"half heads": func(s *secureWorld) net.Conn {
			c := s.connect(s.proxy)
			io.WriteString(c, "GET http://a.exa")
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSecureWorld(t, looked(t, inspected("a.example"), forage.Rule{Host: "b.example"}), func(c *Config) { c.MaxConnections = many })
			held := make(chan net.Conn, many)
			s.hold(public+":22", held)
			before := inUse()
			for range many {
				open(s)
			}
			eventually(t, "all of them", func() bool { return s.engine.Counters().Open == many && (name != "tunnels" || len(held) == many) })
			used := inUse() - before
			if t.Logf("%d KiB each", used/many>>10); used > most {
				t.Errorf("%d MiB are used", used>>20)
			}
			for range beyond {
				conn, err := net.Dial("tcp", s.proxy.Addr().String())
				if err != nil { // it was faster
					continue
				}
				io.WriteString(conn, "CONNECT b.example:22 HTTP/1.1\r\nHost: b.example:22\r\n\r\n")
				if _, err := conn.Read(make([]byte, 1)); err == nil {
					t.Error("one more is served")
				}
				conn.Close()
			}
		})
	}
}
