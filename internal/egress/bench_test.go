package egress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"
)

const chunk = 256 << 10

// pour sends without end.
func pour(conn net.Conn) {
	conn.SetDeadline(time.Time{})
	buf := make([]byte, chunk)
	for {
		if _, err := conn.Write(buf); err != nil {
			return
		}
	}
}

// drink reads n bytes.
func drink(b *testing.B, r io.Reader, n int, buf []byte) {
	for n > 0 {
		k, err := r.Read(buf[:min(n, len(buf))])
		if err != nil {
			b.Fatal(err)
		}
		n -= k
	}
}

// BenchmarkThroughput compares a download directly over loopback with ones
// through the engine, in turns, and gives the share that is left.
func BenchmarkThroughput(b *testing.B) {
	w := newWorld(b, mustPolicy(b, "full"), nil)
	w.name("a.example", public)
	direct := w.serve(public+":22", pour)
	w.serveHTTP(public+":80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(1<<50))
		buf := make([]byte, chunk)
		for {
			if _, err := w.Write(buf); err != nil {
				return
			}
		}
	}))
	paths := map[string]func() io.Reader{
		"spliced": func() io.Reader { return w.toName("a.example", 22) },
		"connect": func() io.Reader {
			conn, _, _ := w.connectProxy("a.example:22")
			return conn
		},
		"http": func() io.Reader {
			conn := w.toName("a.example", 80)
			io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
			return conn
		},
	}
	for name, open := range paths {
		b.Run(name, func(b *testing.B) {
			straight, err := net.Dial("tcp", direct)
			if err != nil {
				b.Fatal(err)
			}
			defer straight.Close()
			through := open()
			through.(net.Conn).SetDeadline(time.Time{})
			defer through.(net.Conn).Close()
			buf := make([]byte, chunk)
			const size = 128 << 20
			b.SetBytes(size)
			var baseline time.Duration
			for b.Loop() {
				drink(b, through, size, buf)
				b.StopTimer()
				start := time.Now()
				drink(b, straight, size, buf)
				baseline += time.Since(start)
				b.StartTimer()
			}
			b.ReportMetric(float64(baseline)/float64(b.Elapsed()), "of-direct")
		})
	}
}

// BenchmarkConnection is a connection and one small exchange.
func BenchmarkConnection(b *testing.B) {
	w := newWorld(b, mustPolicy(b, "full"), nil)
	w.name("a.example", public)
	direct := w.serve(public+":22", echo)
	ask := w.toName("a.example", 22)
	ask.Close()
	dst := netip.MustParseAddrPort("198.18.0.1:22").String()
	for name, open := range map[string]func() net.Conn{
		"direct": func() net.Conn {
			conn, err := net.Dial("tcp", direct)
			if err != nil {
				b.Fatal(err)
			}
			return conn
		},
		"forwarded": func() net.Conn { return w.to(dst) },
		"connect": func() net.Conn {
			conn, r, _ := w.connectProxy("a.example:22")
			return struct {
				net.Conn
			}{bufferedConn{conn, r}}
		},
	} {
		b.Run(name, func(b *testing.B) {
			buf := make([]byte, 6)
			for b.Loop() {
				conn := open()
				if _, err := io.ReadFull(conn, buf); err != nil {
					b.Fatal(err)
				}
				conn.Close()
			}
		})
	}
}

type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

func (c bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }
