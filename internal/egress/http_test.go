package egress

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
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
	for name, tt := range refusedHeads {
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
