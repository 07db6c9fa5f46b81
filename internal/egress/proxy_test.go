package egress

import (
	"bufio"
	"bytes"
	"context"
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

	"forage/internal/policy"
)

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

// What the host knows of its own network stays on the host.
func TestAnswersTellNothingOfTheHost(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "full"), nil)
	w.name("intranet.example", "10.9.8.7")
	w.name("refused.example", public)
	for _, host := range []string{"intranet.example", "refused.example", "unknown.example"} {
		_, tunnel, _ := w.connectProxy(host + ":22")
		absolute := w.connect(w.proxy)
		fmt.Fprintf(absolute, "GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n", host, host)
		for _, r := range []io.Reader{tunnel, absolute} {
			got, err := io.ReadAll(r)
			if err != nil || len(got) == 0 || strings.Contains(string(got), "10.9.8.7") || strings.Contains(string(got), public) || strings.Contains(string(got), "lookup ") {
				t.Errorf("%s: %q, %v", host, got, err)
			}
		}
	}
	if e := w.denied(policy.RulePrivate); !strings.Contains(e.Reason, "10.9.8.7") {
		t.Errorf("the audit does not tell: %+v", e)
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
		"GET http://u:p@c.example/ HTTP/1.1\r\nHost: c.example\r\n\r\n":     403,
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
		"GET http://a%2eexample/ HTTP/1.1\r\nHost: a.example\r\n\r\n":       400,
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
