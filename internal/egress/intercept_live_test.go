package egress

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"forage"
	"forage/internal/audit"
)

// Behind an upstream proxy the server is the one that was meant, or nobody.
func TestInterceptedThroughProxy(t *testing.T) {
	u, _ := url.Parse("http://proxy.corp:3128")
	s := newSecureWorld(t, looked(t, inspected("a.example"), inspected("pinned.example")), func(c *Config) {
		c.UpstreamProxy = u
		c.Resolve = map[string]netip.AddrPort{"pinned.example:443": netip.MustParseAddrPort("10.0.0.8:443")}
	})
	s.name("proxy.corp", "10.0.0.3")
	s.server, _ = certificate(t, "a.example")
	server := s.serveTLS(public+":443", &site{})
	s.serve("10.0.0.3:3128", func(conn net.Conn) {
		r := bufio.NewReader(conn)
		line, _ := r.ReadString('\n')
		for rest := line; strings.TrimSpace(rest) != ""; rest, _ = r.ReadString('\n') {
		}
		if line != "CONNECT a.example:443 HTTP/1.1\r\n" {
			t.Errorf("the proxy was asked for %q", line)
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		there, err := net.Dial("tcp", s.servers[netip.MustParseAddrPort(public+":443")])
		if err != nil {
			return
		}
		defer there.Close()
		go io.Copy(there, r)
		io.Copy(conn, there)
	})
	res, err := s.client(true).Get("https://a.example/")
	if status, _ := answer(t, res, err); status != http.StatusBadGateway { // its certificate is nobody's
		t.Errorf("%d", status)
	}
	host := &http.Client{Transport: s.engine.HostTransport()}
	if _, err := host.Get("https://a.example/"); err == nil {
		t.Error("the host's own request believes it")
	}
	if lookups, _ := s.seen(); strings.Contains(strings.Join(lookups, " "), "example") {
		t.Errorf("looked up %v", lookups)
	}
	server.Close()
}

// The host's own requests go to the addresses that the configuration gives, and are nobody's to
// judge.
func TestHostTransport(t *testing.T) {
	s := newSecureWorld(t, mustPolicy(t, "none"), func(c *Config) {
		c.Resolve = map[string]netip.AddrPort{"b.example:443": netip.MustParseAddrPort("127.0.0.1:9443")}
	})
	site := &site{}
	s.serveTLS(public+":443", site)
	s.serveTLS("127.0.0.1:9443", site)
	client := &http.Client{Transport: s.engine.HostTransport()}
	defer client.CloseIdleConnections()
	for _, host := range []string{"a.example", "b.example"} {
		res, err := client.Get("https://" + host + "/token")
		if status, body := answer(t, res, err); status != 200 || body != "GET "+host+" /token" {
			t.Errorf("%d, %q", status, body)
		}
	}
	if _, dials := s.seen(); len(dials) != 2 || dials[1].String() != "127.0.0.1:9443" {
		t.Errorf("dialled %v", dials)
	}
	if len(s.log.all()) > 0 {
		t.Errorf("%+v", s.log.all())
	}
}

// Traffic tells hosts apart, and makes no end of them.
func TestTraffic(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "a.example"), nil)
	w.name("a.example", public)
	w.serve(public+":22", echo)
	conn := w.toName("a.example", 22)
	r := bufio.NewReader(conn)
	expectLine(t, r, "hello\n")
	io.WriteString(conn, "ping\n")
	expectLine(t, r, "ping\n")
	want := HostTraffic{Host: "a.example", Requests: 1, Open: 1, BytesIn: 11, BytesOut: 5}
	eventually(t, "the connection's figures", func() bool { // bytes are counted when they have been passed on
		got := w.engine.Traffic()
		if len(got) != 1 || got[0].LastUse.IsZero() {
			return false
		}
		got[0].LastUse = time.Time{}
		return got[0] == want
	})
	for range 3 {
		w.connectProxy("b.example:22")
	}
	conn.Close()
	eventually(t, "the end of the connection", func() bool { return w.engine.Counters().Open == 0 })
	for _, host := range w.engine.Traffic() {
		host.LastUse = time.Time{}
		if host != (HostTraffic{Host: "a.example", Requests: 1, BytesIn: 11, BytesOut: 5}) && host != (HostTraffic{Host: "b.example", Denied: 3}) {
			t.Errorf("%+v", host)
		}
	}
}

// What can't be recorded is not done, inside of TLS either.
func TestInterceptedAuditFailure(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example")), nil)
	site := &site{}
	s.serveTLS(public+":443", site)
	for _, http2 := range []bool{false, true} {
		client := s.client(http2)
		res, err := client.Get("https://a.example/first")
		answer(t, res, err)
		s.log.setFailing(true)
		if res, err = client.Get("https://a.example/second"); err == nil && res.StatusCode/100 == 2 {
			t.Errorf("%v", res)
		}
		s.log.setFailing(false)
	}
	for _, seen := range site.requests() {
		if !strings.Contains(seen, "/first") {
			t.Errorf("the server saw %q", seen)
		}
	}
}

// A push to a ref that no rule names is refused in git's own words, and the server hears of no
// end of it.
func TestInterceptedPush(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		s := newSecureWorld(t, looked(t, forage.Rule{Host: "a.example", Git: &forage.GitRule{Repos: []string{"acme/*"}, Push: []string{"agent/*"}}}), nil)
		rec := &recorder{}
		s.serve(public+":443", rec.secure(s.server))
		const none = "0000000000000000000000000000000000000000"
		line := none + " 1111111111111111111111111111111111111111 refs/heads/main\x00 report-status"
		body := fmt.Sprintf("%04x%s0000PACK", len(line)+4, line)
		r, _ := http.NewRequest("POST", "https://a.example/acme/x.git/git-receive-pack", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-git-receive-pack-request")
		res, err := s.client(http2).Do(r)
		if status, text := answer(t, res, err); status != 200 || !strings.Contains(text, "refs/heads/main") || res.Header.Get("Content-Type") != "application/x-git-receive-pack-result" {
			t.Errorf("%d, %q, %v", status, text, res.Header)
		}
		r, _ = http.NewRequest("POST", "https://a.example/acme/x.git/git-receive-pack", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-git-receive-pack-request")
		r.Header.Set("Content-Encoding", "gzip")
		res, err = s.client(http2).Do(r)
		if status, text := answer(t, res, err); status != 403 {
			t.Errorf("%d, %q", status, text)
		}
		s.stop() // now the server has read all that it was sent
		for _, conn := range rec.conns {
			got := conn.String()
			if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, err = io.Copy(io.Discard, r.Body)
				if err == nil || strings.Contains(got, "refs/heads/main") {
					t.Errorf("the server has got %q", got)
				}
			}
		}
	}
}

// A push that is under way ends when the policy lets another ref be pushed in its place.
func TestSetPolicyEndsAPush(t *testing.T) {
	rule := func(push string) forage.Rule {
		return forage.Rule{Host: "a.example", Git: &forage.GitRule{Repos: []string{"acme/*"}, Push: []string{push}}}
	}
	for _, http2 := range []bool{false, true} {
		s := newSecureWorld(t, looked(t, rule("agent/*")), nil)
		begun, whole := make(chan bool, 1), make(chan bool, 1)
		s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := r.Body.Read(make([]byte, 1))
			begun <- err == nil
			_, err = io.Copy(io.Discard, r.Body)
			whole <- err == nil
		}))
		body, send := io.Pipe()
		line := "0000000000000000000000000000000000000000 1111111111111111111111111111111111111111 refs/heads/agent/x\x00 report-status"
		r, _ := http.NewRequest("POST", "https://a.example/acme/x.git/git-receive-pack", body)
		ended := make(chan int, 1)
		go func() {
			status := 0
			if res, err := s.client(http2).Do(r); err == nil {
				status = res.StatusCode
				res.Body.Close()
			}
			ended <- status
		}()
		fmt.Fprintf(send, "%04x%s0000PACK\x00\x00\x00\x02\x00\x00\x00\x01", len(line)+4, line)
		if !<-begun {
			t.Fatal("it has not begun")
		}
		s.engine.SetPolicy(looked(t, rule("agent/*")))
		s.engine.SetPolicy(looked(t, rule("other/*")))
		if <-whole {
			t.Error("the server has got all of it")
		}
		send.CloseWithError(io.ErrUnexpectedEOF) // a client of HTTP/1 waits for it
		if status := <-ended; status == http.StatusOK {
			t.Errorf("%d", status)
		}
		if e := s.log.wait(t, "of the end", func(e audit.Event) bool { return e.Verdict == "deny" }); !strings.Contains(e.Reason, "pushed") {
			t.Errorf("%+v", e)
		}
	}
}

// A client that does not believe the sandbox's authority says so in the audit log.
func TestInterceptedDistrust(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example")), nil)
	_, strange := certificate(t, "a.example")
	conn := tls.Client(s.toName("a.example", 443), &tls.Config{ServerName: "a.example", RootCAs: strange})
	if err := conn.Handshake(); err == nil {
		t.Fatal("believed")
	}
	conn.Close()
	e := s.closed("connect")
	if !strings.Contains(e.Reason, "certificate") || e.Host != "a.example" {
		t.Errorf("%+v", e)
	}
}
