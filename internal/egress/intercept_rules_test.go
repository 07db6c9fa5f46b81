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
	"time"

	"forage"
	"forage/internal/audit"
	"forage/internal/egress/meter"
	"forage/internal/egress/sniff"
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

// With the requests of a minute used up there is a 429 that says how long to
// wait, on every way in.
func TestRequestsPerMinute(t *testing.T) {
	now := time.Now()
	account := meter.NewAccount(forage.Traffic{RequestsPerMinute: 1}, meter.Totals{}, func() time.Time { return now })
	s := newSecureWorld(t, looked(t, inspected("a.example"), inspected("b.example"), forage.Rule{Host: "b.example:22"}), func(c *Config) { c.Account = account })
	s.serveTLS(public+":443", &site{})
	s.serve(public+":22", echo)
	for _, http2 := range []bool{false, true} {
		client := s.client(http2)
		res, err := client.Get("https://a.example/")
		if status, body := answer(t, res, err); status != 200 && !http2 {
			t.Errorf("%d, %q", status, body)
		}
		res, err = client.Get("https://a.example/")
		if status, body := answer(t, res, err); status != 429 || res.Header.Get("Retry-After") == "" || !strings.HasPrefix(body, "forage: denied (requests-per-minute): ") {
			t.Errorf("%d, %q, %v", status, body, res.Header)
		}
	}
	clear := s.toName("a.example", 80)
	io.WriteString(clear, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
	if status, _ := get(t, bufio.NewReader(clear), "GET"); status != 429 {
		t.Errorf("port 80: %d", status)
	}
	if _, _, status := s.connectProxy("b.example:22"); !strings.Contains(status, "429") {
		t.Error(status)
	}
	expectReset(t, s.toName("b.example", 22))
	if e := s.denied("requests-per-minute"); e.Host != "a.example" {
		t.Errorf("%+v", e)
	}
	now = now.Add(2 * time.Minute)
	_, r, status := s.connectProxy("b.example:22")
	if !strings.Contains(status, "200") {
		t.Error(status)
	}
	expectLine(t, r, "hello\n")
}

// Connections beyond the bound are reset, or answered where that is understood.
func TestConnectionsMax(t *testing.T) {
	account := meter.NewAccount(forage.Traffic{ConnectionsMax: 1}, meter.Totals{}, time.Now)
	s := newSecureWorld(t, looked(t, inspected("a.example"), forage.Rule{Host: "a.example:22"}), func(c *Config) { c.Account = account })
	s.serveTLS(public+":443", &site{})
	s.serve(public+":22", echo)
	first := s.toName("a.example", 22)
	expectLine(t, bufio.NewReader(first), "hello\n")
	expectReset(t, s.toName("a.example", 22))
	conn, r := s.secure("a.example")
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
	if status, body := get(t, r, "GET"); status != 429 || !strings.Contains(body, "connections-max") {
		t.Errorf("%d, %q", status, body)
	}
	conn.Close()
	first.Close()
	s.closed(audit.Connect)
	eventually(t, "a place for another", func() bool { return account.Connections() == 0 })
	expectLine(t, bufio.NewReader(s.toName("a.example", 22)), "hello\n")
}

// When all bytes are used up, what is under way is reset, and nothing more begins.
func TestBytesMax(t *testing.T) {
	account := meter.NewAccount(forage.Traffic{BytesMax: 1 << 20}, meter.Totals{}, time.Now)
	s := newSecureWorld(t, looked(t, inspected("a.example"), forage.Rule{Host: "a.example:22"}), func(c *Config) { c.Account = account })
	s.serve(public+":22", pour)
	s.serveTLS(public+":443", &site{})
	conn := s.toName("a.example", 22)
	if n, err := io.Copy(io.Discard, conn); err == nil || n < 1<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
	if e := s.denied("bytes-max"); e.Host != "a.example" || e.Port != 22 {
		t.Errorf("%+v", e)
	}
	res, err := s.client(true).Get("https://a.example/")
	if status, body := answer(t, res, err); status != 429 || !strings.Contains(body, "bytes-max") || res.Header.Get("Retry-After") != "" {
		t.Errorf("%d, %q", status, body)
	}
	if used := account.Totals().Bytes; used < 1<<20 {
		t.Errorf("%d bytes were counted", used)
	}
}

// A budget of tokens makes a model's answers be read, and ends when it is used up.
func TestBudget(t *testing.T) {
	account := meter.NewAccount(forage.Traffic{MaxTokens: 10}, meter.Totals{}, time.Now)
	s := newSecureWorld(t, mustPolicy(t, "restricted", "api.anthropic.com"), func(c *Config) { c.Account = account })
	s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"type":"message","model":"claude-sonnet-4-5","usage":{"input_tokens":7,"output_tokens":5}}`)
	}))
	client := s.client(true)
	for _, want := range []int{200, 429} {
		res, err := client.Post("https://api.anthropic.com/v1/messages", "application/json", strings.NewReader("{}"))
		if status, body := answer(t, res, err); status != want {
			t.Errorf("%d, %q", status, body)
		}
	}
	e := s.closed(audit.HTTP)
	if e.Model != "claude-sonnet-4-5" || e.TokensIn != 7 || e.TokensOut != 5 || e.Cost <= 0 {
		t.Errorf("%+v", e)
	}
	s.denied("max-tokens")
	for _, host := range s.engine.Traffic() {
		if host.Host == "api.anthropic.com" && (host.Tokens != 12 || host.Requests != 1 || host.Denied != 1 || host.BytesIn == 0 || host.BytesOut != 2) {
			t.Errorf("%+v", host)
		}
	}
}

// A change of the policy, and of credentials, ends what is not allowed any more and nothing else,
// on one connection of HTTP/2 too.
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
	client := s.client(true)
	open := func(path string) (io.WriteCloser, *bufio.Reader) {
		body, send := io.Pipe()
		r, _ := http.NewRequest("POST", "https://a.example"+path, body)
		res, err := client.Do(r)
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
	if conns := s.engine.Counters().Accepted; conns != 1 {
		t.Errorf("%d connections", conns)
	}
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

// A connection that was begun elsewhere is asked about at each head, and what identifies it goes no further.
func TestServeProxyConn(t *testing.T) {
	s := newSecureWorld(t, mustPolicy(t, "restricted", "a.example"), nil)
	site := &site{}
	var seen http.Header
	s.serveHTTP(public+":80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen = r.Header; site.ServeHTTP(w, r) }))
	client, server := tcpPair(t)
	head := "GET http://a.example/1 HTTP/1.1\r\nHost: a.example\r\nProxy-Authorization: Bearer token\r\n\r\n"
	s.engine.ServeProxyConn(server, []byte(head), func(h sniff.Head) error {
		if h.ProxyAuthorization != "Bearer token" {
			return &sniff.Error{Rule: RuleIdentity, Reason: "who is it?"}
		}
		return nil
	})
	r := bufio.NewReader(client)
	if status, body := get(t, r, "GET"); status != 200 || body != "GET a.example /1" || seen.Get("Proxy-Authorization") != "" {
		t.Errorf("%d, %q, %v", status, body, seen)
	}
	io.WriteString(client, "GET http://a.example/2 HTTP/1.1\r\nHost: a.example\r\n\r\n")
	if status, _ := get(t, r, "GET"); status != http.StatusProxyAuthRequired {
		t.Errorf("%d", status)
	}
	if got := site.requests(); len(got) != 1 {
		t.Errorf("%q", got)
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
