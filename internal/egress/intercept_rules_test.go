package egress

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"forage"
	"forage/internal/audit"
	"forage/internal/policy"
)

// Each request is judged by its method and path, however it comes.
func TestInterceptedRules(t *testing.T) {
	s := newSecureWorld(t, looked(t,
		forage.Rule{Host: "a.example", Methods: []string{"GET"}, Paths: []string{"/ok/**"}},
		forage.Rule{Host: "a.example", Paths: []string{"/ok/secret"}, Deny: true}), nil)
	site := &site{}
	s.serveTLS(public+":443", site)
	s.serveHTTP(public+":80", site)
	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/ok/x", 200},
		{"POST", "/ok/x", 403},
		{"GET", "/other", 403},
		{"GET", "/ok/secret", 403},
		{"GET", "/ok/../other", 403},
		{"GET", "/ok/%2e%2e/other", 403},
		{"GET", "/ok/x", 200},
	} {
		for _, http2 := range []bool{false, true} {
			r, _ := http.NewRequest(tt.method, "https://a.example/", nil)
			r.URL.Opaque = tt.path // as it is
			res, err := s.client(http2).Do(r)
			status, body := answer(t, res, err)
			if status != tt.status || status == 403 && !strings.HasPrefix(body, "forage: denied (") {
				t.Errorf("%s %s: %d, %q", tt.method, tt.path, status, body)
			}
		}
		conn := s.connect(s.proxy)
		fmt.Fprintf(conn, "%s http://a.example%s HTTP/1.1\r\nHost: a.example\r\n\r\n", tt.method, tt.path)
		if status, body := get(t, bufio.NewReader(conn), "GET"); status != tt.status {
			t.Errorf("through the proxy, %s %s: %d, %q", tt.method, tt.path, status, body)
		}
	}
	for _, seen := range site.requests() {
		if seen != "GET a.example /ok/x" {
			t.Errorf("the server saw %q", seen)
		}
	}
	if e := s.log.wait(t, "of the method", func(e audit.Event) bool { return e.Method == "POST" }); e.Verdict != "deny" || e.Path != "/ok/x" || e.Host != "a.example" {
		t.Errorf("%+v", e)
	}
}

// In monitor mode what would be denied is served, and recorded as what it is.
func TestMonitor(t *testing.T) {
	p, err := policy.Compile(forage.Network{Mode: forage.NetworkRestricted, Allow: []string{"b.example"}, Monitor: true,
		Rules: []forage.Rule{{Host: "a.example", Methods: []string{"GET"}}}})
	if err != nil {
		t.Fatal(err)
	}
	s := newSecureWorld(t, p, nil)
	s.serveTLS(public+":443", &site{})
	res, err := s.client(true).Post("https://a.example/x", "", nil)
	if status, _ := answer(t, res, err); status != 200 {
		t.Errorf("%d", status)
	}
	for _, ended := range []bool{false, true} {
		e := s.log.wait(t, "of the request", func(e audit.Event) bool {
			return e.Kind == audit.HTTP && e.Method == "POST" && (e.Status != 0) == ended
		})
		if e.Verdict != "deny" || !e.Monitored || e.Rule == "" || e.Host != "a.example" {
			t.Errorf("%+v", e)
		}
	}
	// A name that no rule knows, in the DNS, as a connection and as a tunnel.
	s.name("c.example", public)
	s.serve(public+":22", echo)
	expectLine(t, bufio.NewReader(s.toName("c.example", 22)), "hello\n")
	_, r, status := s.connectProxy("c.example:22")
	if !strings.Contains(status, "200") {
		t.Fatal(status)
	}
	expectLine(t, r, "hello\n")
	for _, kind := range []audit.Kind{audit.DNS, audit.Connect} {
		e := s.log.wait(t, "of c.example", func(e audit.Event) bool { return e.Kind == kind && e.Host == "c.example" })
		if e.Verdict != "deny" || !e.Monitored || e.Rule != policy.RuleDefaultDeny {
			t.Errorf("%+v", e)
		}
	}
	// Walls hold.
	for _, authority := range []string{"127.0.0.1:22", "10.0.0.1:22", "host.forage.internal:22", "169.254.169.254:80"} {
		if _, _, status := s.connectProxy(authority); !strings.Contains(status, "403") {
			t.Errorf("%s: %s", authority, status)
		}
	}
}

// A change of the policy, and of credentials, ends connections with what is not allowed any more
// on them, and nothing else.
func TestSetPolicyKeepsStreams(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example")), nil)
	s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines := bufio.NewScanner(r.Body)
		w.(http.Flusher).Flush()
		for lines.Scan() {
			fmt.Fprintln(w, lines.Text())
			w.(http.Flusher).Flush()
		}
	}))
	open := func(path string) (io.WriteCloser, *bufio.Reader) {
		body, send := io.Pipe()
		r, _ := http.NewRequest("POST", "https://a.example"+path, body)
		res, err := s.client(true).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return send, bufio.NewReader(res.Body)
	}
	keep, kept := open("/keep")
	drop, dropped := open("/drop")
	for _, send := range []io.Writer{keep, drop} {
		fmt.Fprintln(send, "one")
	}
	expectLine(t, kept, "one\n")
	expectLine(t, dropped, "one\n")
	s.engine.SetCredentials(bound(t, &vault{value: testSecret}, "", "b.example"))
	s.engine.SetPolicy(looked(t, forage.Rule{Host: "a.example", Paths: []string{"/keep"}}))
	if _, err := dropped.ReadByte(); err == nil {
		t.Error("it goes on")
	}
	for range 3 {
		fmt.Fprintln(keep, "two")
		expectLine(t, kept, "two\n")
	}
	if e := s.log.wait(t, "of the end", func(e audit.Event) bool { return e.Verdict == "deny" }); e.Path != "/drop" || !strings.Contains(e.Reason, "changed") {
		t.Errorf("%+v", e)
	}
	keep.Close()
	drop.Close()
}

// A connection that is not looked into ends when its requests have to be.
func TestSetPolicyEndsUninspected(t *testing.T) {
	s := newSecureWorld(t, mustPolicy(t, "restricted", "a.example"), nil)
	s.serve(public+":443", tlsEcho(s.server))
	conn := s.toName("a.example", 443)
	secure := tls.Client(conn, &tls.Config{ServerName: "a.example", InsecureSkipVerify: true})
	expectLine(t, bufio.NewReader(secure), "hello\n")
	s.engine.SetPolicy(looked(t, forage.Rule{Host: "a.example", Paths: []string{"/ok"}}))
	if _, err := io.ReadAll(secure); err == nil {
		t.Error("it goes on")
	}
}

// tcpPair are the two ends of a connection.
func tcpPair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if client, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client, server
}
