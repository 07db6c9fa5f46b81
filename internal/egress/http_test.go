package egress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage/internal/audit"
	"forage/internal/policy"
)

// site is an HTTP server that says what it was asked.
type site struct {
	mu   sync.Mutex
	seen []string
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	text := fmt.Sprintf("%s %s %s", r.Method, r.Host, r.RequestURI)
	if len(body) > 0 {
		text += fmt.Sprintf(" %q", body)
	}
	s.mu.Lock()
	s.seen = append(s.seen, text)
	s.mu.Unlock()
	io.WriteString(w, text)
}

func (s *site) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// serveHTTP puts an HTTP server at an address.
func (w *world) serveHTTP(addr string, handler http.Handler) {
	w.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() { server.Serve(listener); close(done) }()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers[netip.MustParseAddrPort(addr)] = listener.Addr().String()
	w.stops = append(w.stops, func() { server.Close(); <-done })
}

// get reads a response's status and body.
func get(t testing.TB, r *bufio.Reader, method string) (int, string) {
	t.Helper()
	res, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestHTTPOnPort80(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "a.example", "b.example", public), nil)
	w.name("a.example", public)
	w.name("b.example", public)
	s := &site{}
	w.serveHTTP(public+":80", s)

	conn := w.toName("a.example", 80)
	r := bufio.NewReader(conn)
	for _, tt := range []struct{ request, want string }{
		{"GET /1?q=secret HTTP/1.1\r\nHost: a.example\r\n\r\n", "GET a.example /1?q=secret"},
		{"GET /2 HTTP/1.1\r\nHost: A.Example.\r\n\r\n", "GET a.example /2"},
		{"GET /3 HTTP/1.1\r\nHost: a.example:80\r\n\r\n", "GET a.example /3"},
		{"POST /4 HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello", `POST a.example /4 "hello"`},
		{"POST /5 HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", `POST a.example /5 "hello"`},
		{"GET /%2e%2e/x//y;z?a=%zz;b HTTP/1.1\r\nHost: a.example\r\n\r\n", "GET a.example /%2e%2e/x//y;z?a=%zz;b"},
	} {
		io.WriteString(conn, tt.request)
		if status, body := get(t, r, "GET"); status != 200 || body != tt.want {
			t.Errorf("%q: %d, %q", tt.request, status, body)
		}
	}
	// Another name on the same connection gets nothing, though it is allowed by itself.
	io.WriteString(conn, "GET /6 HTTP/1.1\r\nHost: b.example\r\n\r\n")
	if _, err := r.ReadByte(); err == nil {
		t.Error("a second name was answered")
	}
	e := w.denied("host-mismatch")
	if e.Kind != audit.HTTP || e.Host != "a.example" || e.Path != "/6" || !strings.Contains(e.Reason, "b.example") {
		t.Errorf("%+v", e)
	}
	if got := s.requests(); len(got) != 6 {
		t.Errorf("the server saw %q", got)
	}
	for _, e := range w.log.all() {
		if strings.Contains(e.Path+e.Reason, "secret") {
			t.Errorf("a query in the audit: %+v", e)
		}
	}
	closed := w.closed(audit.HTTP)
	if closed.BytesIn != int64(len("GET a.example /1?q=secret")) || closed.Path != "/1" || closed.Method != "GET" {
		t.Errorf("%+v", closed)
	}
	w.closed(audit.Connect)
}

func TestHTTPOnPort80Refuses(t *testing.T) {
	first := "GET /first HTTP/1.1\r\nHost: a.example\r\n\r\n"
	for name, tt := range map[string]struct{ bytes, rule string }{
		"another Host":       {"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n", "host-mismatch"},
		"another port":       {"GET / HTTP/1.1\r\nHost: a.example:8080\r\n\r\n", "host-mismatch"},
		"an address":         {"GET / HTTP/1.1\r\nHost: 93.184.216.34\r\n\r\n", "host-mismatch"},
		"an empty Host":      {"GET / HTTP/1.1\r\nHost:\r\n\r\n", "host-mismatch"},
		"HTTP/1.0, no Host":  {"GET / HTTP/1.0\r\n\r\n", "host-mismatch"},
		"a longer Host":      {"GET / HTTP/1.1\r\nHost: a.example.b.example\r\n\r\n", "host-mismatch"},
		"user in Host":       {"GET / HTTP/1.1\r\nHost: a.example@b.example\r\n\r\n", "host-mismatch"},
		"absolute":           {"GET http://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", "http-strict"},
		"absolute, the same": {"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", "http-strict"},
		"no slash":           {"GET b.example HTTP/1.1\r\nHost: a.example\r\n\r\n", "http-strict"},
		"CONNECT":            {"CONNECT b.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n", "http-strict"},
		"two Hosts":          {"GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n", "http-strict"},
		"CL and TE":          {"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG", "http-strict"},
		"two lengths":        {"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 6\r\nContent-Length: 5\r\n\r\n0\r\n\r\nG", "http-strict"},
		"obs-fold":           {"GET / HTTP/1.1\r\nHost: a.example\r\nX: y\r\n Host: b.example\r\n\r\n", "http-strict"},
		"HTTP/2":             {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "not-http"},
		"TLS":                {"\x16\x03\x01\x02\x00\x01\x00", "not-http"},
		"SSH":                {"SSH-2.0-x\r\n", "not-http"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, tunnel := range []bool{false, true} {
				for _, before := range []string{"", first} {
					w := newWorld(t, mustPolicy(t, "restricted", "a.example"), nil)
					w.name("a.example", public)
					s := &site{}
					w.serveHTTP(public+":80", s)
					var conn net.Conn
					var r *bufio.Reader
					if tunnel {
						conn, r, _ = w.connectProxy("a.example:80")
					} else {
						conn = w.toName("a.example", 80)
						r = bufio.NewReader(conn)
					}
					if before != "" {
						io.WriteString(conn, before)
						get(t, r, "GET")
					}
					io.WriteString(conn, tt.bytes)
					if got, err := io.ReadAll(r); len(got) > 0 || errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
						t.Errorf("tunnel %v, after %q: %q, %v", tunnel, before, got, err)
					}
					w.denied(tt.rule)
					if got := s.requests(); len(got) != strings.Count(before, "first") {
						t.Errorf("tunnel %v: the server saw %q", tunnel, got)
					}
				}
			}
		})
	}
}

// A request that is hidden in another's body stays a body.
func TestSmuggledRequestStaysABody(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "full"), nil)
	w.name("a.example", public)
	s := &site{}
	w.serveHTTP(public+":80", s)
	hidden := "GET /hidden HTTP/1.1\r\nHost: internal\r\n\r\n"
	conn := w.toName("a.example", 80)
	fmt.Fprintf(conn, "POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: %d\r\n\r\n%s", len(hidden), hidden)
	get(t, bufio.NewReader(conn), "POST")
	if diff := cmp.Diff([]string{fmt.Sprintf("POST a.example /x %q", hidden)}, s.requests()); diff != "" {
		t.Error(diff)
	}
}

func TestProxyConnect(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "a.example:22", "10.0.0.7:8443", "mixed.example", "gone.example", "dead.example"), nil)
	w.name("a.example", public)
	w.name("mixed.example", public, "10.0.0.1")
	w.name("dead.example", public)
	w.serve(public+":22", echo)
	w.serve("10.0.0.7:8443", echo)
	for authority, want := range map[string]string{
		"a.example:22": "200", "A.EXAMPLE.:22": "200", "10.0.0.7:8443": "200", "[::ffff:10.0.0.7]:8443": "200", "0x0a000007:8443": "200",
		"a.example:23": "403", "b.example:22": "403", "a.example.b.example:22": "403", "xa.example:22": "403",
		"mixed.example:22": "403", "gone.example:22": "502", "dead.example:23": "502",
		// Spellings of addresses that nobody named.
		"127.0.0.1:22": "403", "127.1:22": "403", "0x7f.1:22": "403", "0177.0.0.1:22": "403", "2130706433:22": "403",
		"[::1]:22": "403", "[::ffff:127.0.0.1]:22": "403", "[::ffff:7f00:1]:22": "403", "[::127.0.0.1]:22": "403",
		"0:22": "403", "0.0.0.0:22": "403", "[::]:22": "403", "169.254.169.254:80": "403", "2852039166:80": "403", "[fe80::1%25eth0]:22": "403",
		"[64:ff9b::7f00:1]:22": "403", "10.0.0.7:8444": "403", "127.0.0.1.:22": "403", "localhost:22": "403", "%31%32%37.0.0.1:22": "4",
		"１２７.0.0.1:22": "4", "a.example:22@b.example:22": "4", "a.example": "403", "a.example:": "4", "a.example:0": "4", ":22": "4", "a.example:99999": "4",
		"a.example:022": "200", "user@a.example:22": "4", "a.example:22/x": "4", "a.example,b.example:22": "4",
	} {
		conn, r, status := w.connectProxy(authority)
		if !strings.HasPrefix(status, "HTTP/1.1 "+want) {
			t.Errorf("CONNECT %s: %s, want %s", authority, status, want)
		}
		if want == "200" {
			expectLine(t, r, "hello\n")
		} else if rest, err := io.ReadAll(r); err != nil || len(rest) == 0 {
			t.Errorf("CONNECT %s: the reason is %q, %v", authority, rest, err)
		}
		conn.Close()
	}
	_, dials := w.seen()
	for _, addr := range dials {
		if s := addr.String(); s != public+":22" && s != public+":23" && s != "10.0.0.7:8443" {
			t.Errorf("dialled %s", s)
		}
	}
}

func TestProxyConnectPipelined(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "a.example"), nil)
	w.name("a.example", public)
	w.serve(public+":22", echo)
	// The client does not wait for the tunnel.
	conn := w.connect(w.proxy)
	io.WriteString(conn, "CONNECT a.example:22 HTTP/1.1\r\nHost: a.example\r\n\r\nping\n")
	r := bufio.NewReader(conn)
	for _, line := range []string{"HTTP/1.1 200 Connection established\r\n", "\r\n", "hello\n", "ping\n"} {
		expectLine(t, r, line)
	}
	// What follows a refused CONNECT is not a request.
	conn = w.connect(w.proxy)
	io.WriteString(conn, "CONNECT b.example:22 HTTP/1.1\r\n\r\nCONNECT a.example:22 HTTP/1.1\r\n\r\n")
	got, _ := io.ReadAll(conn)
	if bytes.Contains(got, []byte(" 200 ")) || !bytes.Contains(got, []byte(" 403 ")) {
		t.Errorf("%q", got)
	}
	// Host has to agree.
	conn = w.connect(w.proxy)
	io.WriteString(conn, "CONNECT a.example:22 HTTP/1.1\r\nHost: b.example:22\r\n\r\n")
	if got, _ := io.ReadAll(conn); bytes.Contains(got, []byte(" 200 ")) {
		t.Errorf("%q", got)
	}
	w.denied("host-mismatch")
}

// Every request on one connection is judged for itself.
func TestProxyAbsoluteForm(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "a.example", "b.example:8080"), nil)
	w.name("a.example", public)
	w.name("b.example", "93.184.216.35")
	s := &site{}
	w.serveHTTP(public+":80", s)
	w.serveHTTP("93.184.216.35:8080", s)
	conn := w.connect(w.proxy)
	r := bufio.NewReader(conn)
	for _, tt := range []struct{ request, want string }{
		{"GET http://a.example/1 HTTP/1.1\r\nHost: a.example\r\nProxy-Connection: keep-alive\r\n\r\n", "GET a.example /1"},
		{"GET HTTP://B.example:8080/2?x HTTP/1.1\r\nHost: b.example:8080\r\n\r\n", "GET b.example:8080 /2?x"},
		{"PUT http://a.example:80/3 HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\n\r\nhi", `PUT a.example /3 "hi"`},
	} {
		io.WriteString(conn, tt.request)
		if status, body := get(t, r, "GET"); status != 200 || body != tt.want {
			t.Errorf("%q: %d, %q", tt.request, status, body)
		}
	}
	io.WriteString(conn, "GET http://b.example/4 HTTP/1.1\r\nHost: b.example\r\n\r\n")
	if status, body := get(t, r, "GET"); status != 403 || !strings.Contains(body, "default-deny") {
		t.Errorf("%d, %q", status, body)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("the connection goes on after a denial: %v", err)
	}
	for request, want := range map[string]int{
		"GET http://c.example/ HTTP/1.1\r\nHost: c.example\r\n\r\n":         403,
		"GET http://a.example/ HTTP/1.1\r\nHost: c.example\r\n\r\n":         403,
		"GET http://a.example/ HTTP/1.1\r\nHost: a.example:81\r\n\r\n":      403,
		"GET http://a.example@c.example/ HTTP/1.1\r\nHost: x\r\n\r\n":       403,
		"GET http://u:p@a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n":     403,
		"GET http://127.0.0.1/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n":         403,
		"GET http://0x7f000001/ HTTP/1.1\r\nHost: 0x7f000001\r\n\r\n":       403,
		"GET http://[::1]/ HTTP/1.1\r\nHost: [::1]\r\n\r\n":                 403,
		"GET http://a.example:81 HTTP/1.1\r\nHost: a.example:81\r\n\r\n":    502,
		"GET http://a.example:443/ HTTP/1.1\r\nHost: a.example:443\r\n\r\n": 403,
		"GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n":        400,
		"GET ftp://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n":          400,
		"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n":                         400,
		"GET //a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n":              400,
		"GET http:///x HTTP/1.1\r\nHost: a.example\r\n\r\n":                 403,
		"GET http://a%2eexample/ HTTP/1.1\r\nHost: a.example\r\n\r\n":       403,
		"GET http://a.example\\@c.example/ HTTP/1.1\r\nHost: x\r\n\r\n":     400,
		"junk\r\n\r\n": 400,
	} {
		conn := w.connect(w.proxy)
		io.WriteString(conn, request)
		if status, body := get(t, bufio.NewReader(conn), "GET"); status != want {
			t.Errorf("%q: %d, %q, want %d", request, status, body, want)
		}
		conn.Close()
	}
	if got := s.requests(); len(got) != 3 {
		t.Errorf("the servers saw %q", got)
	}
}

// A redirect is the client's to follow, and judged when it does.
func TestRedirectIsNotFollowed(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "a.example"), nil)
	w.name("a.example", public)
	w.serveHTTP(public+":80", http.RedirectHandler("http://169.254.169.254/", http.StatusFound))
	conn := w.connect(w.proxy)
	io.WriteString(conn, "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n")
	if status, _ := get(t, bufio.NewReader(conn), "HEAD"); status != 302 {
		t.Errorf("%d", status)
	}
	if _, dials := w.seen(); len(dials) != 1 {
		t.Errorf("dialled %v", dials)
	}
}

// Streams arrive piece by piece, in both directions.
func TestStreams(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "full"), nil)
	w.name("a.example", public)
	next := make(chan struct{})
	w.serveHTTP(public+":80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n", i)
			w.(http.Flusher).Flush()
			<-next
		}
	}))
	conn := w.toName("a.example", 80)
	io.WriteString(conn, "GET /events HTTP/1.1\r\nHost: a.example\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body := bufio.NewReader(res.Body)
	for i := range 3 {
		expectLine(t, body, fmt.Sprintf("data: %d\n", i))
		next <- struct{}{}
	}
}

// upgrader is a server that switches to a protocol and then echoes.
func upgrader(protocol string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			io.WriteString(w, "no upgrade")
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol)
		io.Copy(conn, rw)
	})
}

func TestUpgrades(t *testing.T) {
	request := "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: %s\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n"
	for _, tt := range []struct {
		asked, switched string
		status          int
	}{
		{"websocket", "websocket", 101},
		{"WebSocket", "websocket", 101},
		{"h2c", "h2c", 200},
		{"h2c, websocket", "h2c", 200},
		{"websocket", "h2c", 0}, // the server is not to choose
	} {
		w := newWorld(t, mustPolicy(t, "full"), nil)
		w.name("a.example", public)
		w.serveHTTP(public+":80", upgrader(tt.switched))
		conn := w.toName("a.example", 80)
		fmt.Fprintf(conn, request, tt.asked)
		r := bufio.NewReader(conn)
		if tt.status == 0 {
			if got, err := io.ReadAll(r); len(got) > 0 || err == nil {
				t.Errorf("%+v: %q, %v", tt, got, err)
			}
			continue
		}
		res, err := http.ReadResponse(r, nil)
		if err != nil || res.StatusCode != tt.status {
			t.Errorf("%+v: %v, %v", tt, res, err)
			continue
		}
		if tt.status == 101 {
			frame := "\x81\x05hello\r\n\r\n"
			io.WriteString(conn, frame)
			got := make([]byte, len(frame))
			if _, err := io.ReadFull(r, got); err != nil || string(got) != frame {
				t.Errorf("%q, %v", got, err)
			}
			// It is still reset when the policy changes.
			w.engine.SetPolicy(policy.Policy{})
			if _, err := r.ReadByte(); err == nil {
				t.Error("it goes on")
			}
		}
	}
}

// A change of the policy ends a request that is under way, and is not evaded by
// a connection that is kept open towards the server.
func TestSetPolicyEndsRequests(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "a.example:80"), nil)
	w.name("a.example", "10.0.0.1") // private, and named
	gone := make(chan struct{})
	var once sync.Once
	w.serveHTTP("10.0.0.1:80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			once.Do(func() { close(gone) })
		}
	}))
	waiting := w.toName("a.example", 80)
	io.WriteString(waiting, "GET /wait HTTP/1.1\r\nHost: a.example\r\n\r\n")
	waitingReader := bufio.NewReader(waiting)
	if _, err := waitingReader.ReadByte(); err != nil {
		t.Fatal(err)
	}
	idle := w.connect(w.proxy)
	idleReader := bufio.NewReader(idle)
	io.WriteString(idle, "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n")
	get(t, idleReader, "GET")
	w.engine.SetPolicy(mustPolicy(t, "restricted", "a.example")) // no longer with its port
	if _, err := io.ReadAll(waitingReader); err == nil {
		t.Error("the request goes on")
	}
	<-gone
	again := w.connect(w.proxy)
	io.WriteString(again, "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n")
	if status, body := get(t, bufio.NewReader(again), "GET"); status != 403 || !strings.Contains(body, policy.RulePrivate) {
		t.Errorf("%d, %q", status, body)
	}
}

// An address that was allowed is asked for names that are allowed alone.
func TestHTTPByAddress(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", public, "a.example"), nil)
	s := &site{}
	w.serveHTTP(public+":80", s)
	for host, allowed := range map[string]bool{public: true, "a.example": true, "b.example": false, "93.184.216.35": false} {
		conn := w.to(public + ":80")
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host)
		if !allowed {
			expectReset(t, conn)
			continue
		}
		if status, body := get(t, bufio.NewReader(conn), "GET"); status != 200 || body != "GET "+host+" /" {
			t.Errorf("%s: %d, %q", host, status, body)
		}
	}
}

func TestBigBodies(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "full"), nil)
	w.name("a.example", public)
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	w.serveHTTP(public+":80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		io.Copy(w, r.Body) // answers while it is being asked
	}))
	proxyURL := func(*http.Request) (*url.URL, error) { return url.Parse("http://" + w.proxy.Addr().String()) }
	client := &http.Client{Transport: &http.Transport{Proxy: proxyURL}}
	defer client.CloseIdleConnections()
	for range 3 {
		res, err := client.Post("http://a.example/", "text/plain", bytes.NewReader(big))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !bytes.Equal(got, big) {
			t.Fatalf("%d of %d bytes, %v", len(got), len(big), err)
		}
	}
}

// What the host's own environment says about proxies is nothing to the engine.
func TestInheritedProxyVariables(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	w := newWorld(t, mustPolicy(t, "full"), nil)
	w.name("a.example", public)
	w.serveHTTP(public+":80", &site{})
	conn := w.toName("a.example", 80)
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
	if status, _ := get(t, bufio.NewReader(conn), "GET"); status != 200 {
		t.Errorf("%d", status)
	}
}

func TestUpstreamProxy(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	note := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, text)
	}
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(r.Method + " " + r.RequestURI + " " + r.Header.Get("Proxy-Authorization"))
		switch {
		case r.Method != http.MethodConnect:
			io.WriteString(w, "through the proxy")
		case strings.HasPrefix(r.Host, "refused"):
			w.WriteHeader(http.StatusForbidden)
		default:
			conn, rw, _ := http.NewResponseController(w).Hijack()
			defer conn.Close()
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nX: y\r\n\r\nhello\n") // the server speaks first, at once
			io.Copy(conn, rw)
		}
	})
	u, _ := url.Parse("http://me:pass@proxy.corp:3128")
	w := newWorld(t, mustPolicy(t, "restricted", "a.example", "refused.example", "pinned.example:22", "10.0.0.7:22"), func(c *Config) {
		c.UpstreamProxy = u
		c.Resolve = map[string]netip.AddrPort{"pinned.example:22": netip.MustParseAddrPort("10.0.0.8:22")}
	})
	w.name("proxy.corp", "10.0.0.3") // private: it is the user's
	w.serveHTTP("10.0.0.3:3128", upstream)
	w.serve("10.0.0.7:22", echo)
	w.serve("10.0.0.8:22", echo)

	conn := w.toName("a.example", 22)
	r := bufio.NewReader(conn)
	expectLine(t, r, "hello\n")
	io.WriteString(conn, "ping\n")
	expectLine(t, r, "ping\n")
	expectReset(t, w.toName("refused.example", 22))
	if _, _, status := w.connectProxy("refused.example:22"); !strings.Contains(status, "502") {
		t.Error(status)
	}
	conn = w.toName("a.example", 80)
	io.WriteString(conn, "GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n")
	if status, body := get(t, bufio.NewReader(conn), "GET"); status != 200 || body != "through the proxy" {
		t.Errorf("%d, %q", status, body)
	}
	expectLine(t, bufio.NewReader(w.toName("pinned.example", 22)), "hello\n")
	expectLine(t, bufio.NewReader(w.to("10.0.0.7:22")), "hello\n")
	expectReset(t, w.to("8.8.8.8:22"))
	const credentials = "Basic bWU6cGFzcw=="
	mu.Lock()
	defer mu.Unlock()
	want := []string{"CONNECT a.example:22 " + credentials, "CONNECT refused.example:22 " + credentials,
		"CONNECT refused.example:22 " + credentials, "GET http://a.example/x " + credentials}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Error(diff)
	}
	if lookups, _ := w.seen(); len(lookups) == 0 || strings.Contains(strings.Join(lookups, " "), "example") {
		t.Errorf("looked up %v", lookups)
	}
}

func TestUpstreamProxyMisbehaves(t *testing.T) {
	for name, answer := range map[string]string{
		"closes": "", "junk": "junk\r\n\r\n", "endless": strings.Repeat("x", 100<<10), "407": "HTTP/1.1 407 No\r\n\r\n",
	} {
		u, _ := url.Parse("http://10.0.0.3:3128")
		w := newWorld(t, mustPolicy(t, "full"), func(c *Config) { c.UpstreamProxy = u })
		w.serve("10.0.0.3:3128", func(conn net.Conn) {
			bufio.NewReader(conn).ReadString('\n')
			io.WriteString(conn, answer)
		})
		conn := w.toName("a.example", 22)
		expectReset(t, conn)
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// Timeouts of a dial are told as such.
func TestProxyTimeout(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "full"), func(c *Config) {
		c.Dial = func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) { return nil, os.ErrDeadlineExceeded }
	})
	w.name("a.example", public)
	if _, _, status := w.connectProxy("a.example:22"); !strings.Contains(status, "504") {
		t.Error(status)
	}
	conn := w.connect(w.proxy)
	io.WriteString(conn, "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n")
	if status, _ := get(t, bufio.NewReader(conn), "GET"); status != 504 {
		t.Error(status)
	}
}
