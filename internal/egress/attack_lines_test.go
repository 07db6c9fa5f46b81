package egress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"forage"
	"forage/internal/audit"
	"forage/internal/egress/meter"
)

// What is refused in a request line of HTTP/1 is refused in the pseudo-fields of HTTP/2, and
// can't be mistaken for anything else in a table.
func TestLinesOfHTTP2(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example"), forage.Rule{Host: "a.example", Methods: []string{"DELETE"}, Deny: true}), nil)
	site := &site{}
	s.serveTLS(public+":443", site)
	for _, line := range [][2]string{
		{"DELETE", "/x"}, {"DELETE ", "/x"}, {"delete\t", "/x"}, {"DEL\xc3\xa4TE", "/x"}, {strings.Repeat("A", 33), "/x"}, {"GET / HTTP/1.1", "/x"},
		{"GET", "/x HTTP/1.0"}, {"GET", "/x? HTTP/1.0"}, {"GET", "/x#y"}, {"GET", `/x\y`}, {"GET", "/x?\xff"}, {"GET", "/\xc3\xa4"}, {"GET", "/%zz"}, {"GET", "x"},
	} {
		before := len(s.log.all())
		if status := s.rawHTTP2("a.example").ask(t, ":method", line[0], ":scheme", "https", ":authority", "a.example", ":path", line[1]); status == "200" {
			t.Errorf("%q is answered with %s", line, status)
		}
		eventually(t, fmt.Sprintf("a denial of %q", line), func() bool {
			for _, e := range s.log.all()[before:] {
				if strings.ContainsFunc(e.Method+e.Path, func(r rune) bool { return r > '~' || strings.ContainsRune(" #\\\t", r) }) {
					t.Fatalf("%q is recorded as %+v", line, e)
				}
				if e.Verdict == "deny" && e.Kind == audit.HTTP {
					return true
				}
			}
			return false
		})
	}
	if asked := site.requests(); len(asked) > 0 {
		t.Errorf("the server was asked %q", asked)
	}
}

// What the HTTP server would refuse by itself is in the audit log.
func TestRefusalsOfHTTPAreRecorded(t *testing.T) {
	for _, head := range []string{"GET /%zz HTTP/1.1\r\nHost: a.example\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.example\r\nExpect: 200-maybe\r\n\r\n"} {
		w := newWorld(t, mustPolicy(t, "restricted", "a.example"), nil)
		w.name("a.example", public)
		conn := w.toName("a.example", 80)
		io.WriteString(conn, head)
		expectReset(t, conn)
		w.denied("http-strict")
	}
}

// An answer that was cut off does not look complete, in the audit log either.
func TestCutAnswersAreRecorded(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "a.example"), nil)
	w.name("a.example", public)
	w.serveHTTP(public+":80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "hello")
	}))
	conn := w.toName("a.example", 80)
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
	io.Copy(io.Discard, conn)
	e := w.log.wait(t, "of the end", func(e audit.Event) bool { return e.Kind == audit.HTTP && e.Reason != "" })
	if e.Verdict != "allow" || e.Reason != "failed: "+errCut.Error() || e.BytesIn != 5 {
		t.Errorf("%+v", e)
	}
}

// A client that has said all that it has to say, and ended its side, gets its answer.
func TestHalfClosedHTTPIsServed(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "a.example"), nil)
	w.name("a.example", public)
	answer := make(chan struct{})
	w.serveHTTP(public+":80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		select {
		case <-answer:
			fmt.Fprintf(w, "%s %s", r.Method, body)
		case <-r.Context().Done():
		}
	}))
	var conns []net.Conn
	for _, request := range []string{"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "PUT / HTTP/1.0\r\nHost: a.example\r\nContent-Length: 2\r\n\r\nhi"} {
		conn := w.toName("a.example", 80)
		io.WriteString(conn, request)
		conn.(*net.TCPConn).CloseWrite()
		conns = append(conns, conn)
	}
	eventually(t, "two requests", func() bool { return w.engine.Counters().Open == 2 })
	close(answer)
	for i, want := range []string{"GET ", "PUT hi"} {
		r := bufio.NewReader(conns[i])
		if status, body := get(t, r, "GET"); status != 200 || body != want {
			t.Errorf("%d, %q, want %q", status, body, want)
		}
		if _, err := r.ReadByte(); err != io.EOF {
			t.Errorf("after the answer: %v", err)
		}
	}
}

// A user and a password in a proxied URL become what clients make of them.
func TestUserInformationOfAProxiedURL(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "a.example"), nil)
	w.name("a.example", public)
	w.serveHTTP(public+":80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Host, r.RequestURI, r.Header["Authorization"])
	}))
	conn := w.connect(w.proxy)
	io.WriteString(conn, "GET http://user:pass@a.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n")
	if status, body := get(t, bufio.NewReader(conn), "GET"); status != 200 || body != "a.example/x[Basic dXNlcjpwYXNz]" {
		t.Errorf("%d, %q", status, body)
	}
	if log := fmt.Sprint(w.log.all()); strings.Contains(log, "pass@") {
		t.Error(log)
	}
}

// What a server says in the place of an answer is in the audit log without the secret.
func TestMalformedAnswersTellNoSecret(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example")), func(c *Config) {
		c.Credentials = bound(t, &vault{value: testSecret}, "", "a.example")
	})
	var answer atomic.Pointer[string]
	s.serve(public+":443", func(conn net.Conn) {
		secure := tlsServer(conn, s.server)
		defer secure.Close()
		if _, err := http.ReadRequest(bufio.NewReader(secure)); err == nil {
			io.WriteString(secure, *answer.Load())
		}
	})
	client := s.client(false)
	for _, text := range []string{
		testSecret + "\r\n\r\n", "HTTP/1.1 " + testSecret + "\r\n\r\n", "HTTP/1.1 200 OK\r\n" + testSecret + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Encoding: " + testSecret + "\r\nContent-Length: 1\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nContent-Length: " + testSecret + "\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + testSecret[:20] + "\r\n\r\n",
	} {
		answer.Store(&text)
		before := len(s.log.all())
		if res, err := client.Get("https://a.example/"); err == nil {
			res.Body.Close()
		}
		eventually(t, "the end", func() bool {
			return slices.ContainsFunc(s.log.all()[before:], func(e audit.Event) bool { return e.Status != 0 })
		})
	}
	if log := fmt.Sprint(s.log.all()); strings.Contains(log, testSecret[:14]) {
		t.Error(log)
	}
}

// However many connections there are, no more goes through than may.
func TestBytesMaxIsKept(t *testing.T) {
	const most, slack = 8 << 20, 1 << 20
	account := meter.NewAccount(forage.Traffic{BytesMax: most}, meter.Totals{}, time.Now)
	s := newSecureWorld(t, looked(t, inspected("a.example"), forage.Rule{Host: "a.example:22"}), func(c *Config) { c.Account = account })
	s.serve(public+":22", pour)
	s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for part := make([]byte, 32<<10); ; {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	}))
	var all sync.WaitGroup
	var got atomic.Int64
	for i := range 16 {
		all.Go(func() {
			var n int64
			if i%2 == 0 {
				n, _ = io.Copy(io.Discard, s.toName("a.example", 22))
			} else if res, err := s.client(true).Get("https://a.example/"); err == nil {
				n, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
			got.Add(n)
		})
	}
	all.Wait()
	if used := account.Totals().Bytes; got.Load() > most+slack || used < most || used > most+slack {
		t.Errorf("%d bytes came, %d were counted", got.Load(), used)
	}
	s.denied("bytes-max")
}

// pour sends without end.
func pour(conn net.Conn) {
	conn.SetDeadline(time.Time{})
	for buf := make([]byte, 256<<10); ; {
		if _, err := conn.Write(buf); err != nil {
			return
		}
	}
}
