package egress

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"forage"
	"forage/internal/audit"
	"forage/internal/egress/tlsmitm"
	"forage/internal/policy"
)

// refusedHeads are what is refused of HTTP/1 to a.example, and by which rule.
var refusedHeads = map[string]struct{ bytes, rule string }{
	"another Host":       {"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n", ruleHost},
	"another port":       {"GET / HTTP/1.1\r\nHost: a.example:8443\r\n\r\n", ruleHost},
	"an address":         {"GET / HTTP/1.1\r\nHost: " + public + "\r\n\r\n", ruleHost},
	"an empty Host":      {"GET / HTTP/1.1\r\nHost:\r\n\r\n", ruleHost},
	"a longer Host":      {"GET / HTTP/1.1\r\nHost: a.example.b.example\r\n\r\n", ruleHost},
	"user in Host":       {"GET / HTTP/1.1\r\nHost: a.example@b.example\r\n\r\n", ruleHost},
	"absolute":           {"GET https://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", "http-strict"},
	"absolute, the same": {"GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", "http-strict"},
	"CONNECT":            {"CONNECT b.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n", "http-strict"},
	"CONNECT to a path":  {"CONNECT /x HTTP/1.1\r\nHost: a.example\r\n\r\n", "http-strict"},
	"two Hosts":          {"GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n", "http-strict"},
	"CL and TE":          {"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG", "http-strict"},
	"two lengths":        {"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 6\r\nContent-Length: 5\r\n\r\n0\r\n\r\nG", "http-strict"},
	"obs-fold":           {"GET / HTTP/1.1\r\nHost: a.example\r\nX: y\r\n Host: b.example\r\n\r\n", "http-strict"},
	"bare LF":            {"GET / HTTP/1.1\nHost: a.example\n\n", "http-strict"},
	"HTTP/2 unasked":     {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "not-http"},
	"SSH":                {"SSH-2.0-x\r\n", "not-http"},
	"HTTP/1.0, no Host":  {"GET / HTTP/1.0\r\n\r\n", ruleHost},
	"no slash":           {"GET b.example HTTP/1.1\r\nHost: a.example\r\n\r\n", "http-strict"},
	"TLS":                {"\x16\x03\x01\x02\x00\x01\x00", "not-http"},
}

// What is refused on port 80 is refused inside TLS, also after a good request,
// and the client is told.
func TestInterceptRefuses(t *testing.T) {
	first := "GET /first HTTP/1.1\r\nHost: a.example\r\n\r\n"
	for name, tt := range refusedHeads {
		t.Run(name, func(t *testing.T) {
			for _, before := range []string{"", first} {
				s := newSecureWorld(t, looked(t, inspected("a.example"), inspected("b.example")), nil)
				site := &site{}
				s.serveTLS(public+":443", site)
				conn, r := s.secure("a.example")
				if before != "" {
					io.WriteString(conn, before)
					get(t, r, "GET")
				}
				io.WriteString(conn, tt.bytes)
				res, err := http.ReadResponse(r, nil)
				if err != nil || res.StatusCode/100 != 4 {
					t.Fatalf("after %q: %v, %v", before, res, err)
				}
				text, _ := io.ReadAll(res.Body)
				if !strings.HasPrefix(string(text), "forage: denied ("+tt.rule+"): ") {
					t.Errorf("%q", text)
				}
				if rest, err := io.ReadAll(r); len(rest) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("it goes on: %q, %v", rest, err)
				}
				if e := s.denied(tt.rule); e.Host != "a.example" || e.Port != 443 || e.Kind != audit.HTTP {
					t.Errorf("%+v", e)
				}
				if got := site.requests(); len(got) != strings.Count(before, "first") {
					t.Errorf("the server saw %q", got)
				}
			}
		})
	}
}

// OPTIONS * reaches the server, and the audit log, like any other request.
func TestInterceptedOptions(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example")), nil)
	site := &site{}
	server := s.serveTLS(public+":443", site)
	server.DisableGeneralOptionsHandler = true
	conn, r := s.secure("a.example")
	io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n")
	if status, body := get(t, r, "OPTIONS"); status != 200 || body != "OPTIONS a.example *" {
		t.Errorf("%d, %q", status, body)
	}
	if e := s.closed(audit.HTTP); e.Method != "OPTIONS" || e.Path != "*" {
		t.Errorf("%+v", e)
	}
}

// What the first bytes say is held against the name that was judged, as on a
// connection that is not looked into.
func TestInterceptedHello(t *testing.T) {
	for name, tt := range map[string]struct{ sni, rule string }{
		"another name": {"b.example", "sni-mismatch"},
		"no name":      {"", "sni-missing"},
	} {
		s := newSecureWorld(t, looked(t, inspected("a.example"), inspected("b.example")), nil)
		conn := tls.Client(s.toName("a.example", 443), &tls.Config{ServerName: tt.sni, InsecureSkipVerify: true})
		if err := conn.Handshake(); err == nil {
			t.Errorf("%s: went through", name)
		}
		s.denied(tt.rule)
	}
	s := newSecureWorld(t, looked(t, inspected("a.example")), nil)
	sendSplit(s.toName("a.example", 443), withECH(t))
	s.denied("ech")
	clear := s.toName("a.example", 443)
	io.WriteString(clear, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
	expectReset(t, clear)
	s.denied("not-tls")
	// Split into single bytes it is the same.
	conn := tls.Client(dribble{s.toName("a.example", 443)}, &tls.Config{ServerName: "a.example", RootCAs: s.inside})
	if err := conn.Handshake(); err != nil {
		t.Error(err)
	}
}

type dribble struct{ net.Conn }

func (c dribble) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := c.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

// A tunnel to an address that is looked into after all is not ended by a policy that wants it to
// be.
func TestSetPolicyKeepsATunnelThatIsLookedInto(t *testing.T) {
	mixed := func(more ...forage.Rule) policy.Policy {
		p, err := policy.Compile(forage.Network{Mode: forage.NetworkFull, Rules: append(more, inspected("a.example"))})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	s := newSecureWorld(t, mixed(), nil)
	s.serveTLS("93.184.216.35:443", &site{})
	s.serveTLS(public+":443", &site{})
	tunnel, _, _ := s.connectProxy("93.184.216.35:443")
	conn := tls.Client(tunnel, &tls.Config{ServerName: "a.example", RootCAs: s.inside})
	r := bufio.NewReader(conn)
	for range 2 {
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
		if status, _ := get(t, r, "GET"); status != 200 {
			t.Errorf("%d", status)
		}
		s.engine.SetPolicy(mixed(inspected("93.184.216.35")))
	}
	for _, host := range s.engine.Traffic() {
		if host.Host == "93.184.216.35" && host.Requests != 0 {
			t.Errorf("%+v: its requests count for the name", host)
		}
	}
}

// An address is allowed: the name that is asked of it is judged by its own
// rules, and reached by its own address.
func TestInterceptedByAddress(t *testing.T) {
	p, err := policy.Compile(forage.Network{Mode: forage.NetworkFull, Rules: []forage.Rule{{Host: "a.example", Paths: []string{"/ok"}}}})
	if err != nil {
		t.Fatal(err)
	}
	s := newSecureWorld(t, p, nil)
	site := &site{}
	s.serveTLS(public+":443", site)
	s.serveTLS("93.184.216.35:443", site)
	for _, open := range []func() net.Conn{
		func() net.Conn { return s.to("93.184.216.35:443") },
		func() net.Conn { conn, _, _ := s.connectProxy("93.184.216.35:443"); return conn },
	} {
		conn := tls.Client(open(), &tls.Config{ServerName: "a.example", RootCAs: s.inside})
		r := bufio.NewReader(conn)
		io.WriteString(conn, "GET /ok HTTP/1.1\r\nHost: a.example\r\n\r\nGET /no HTTP/1.1\r\nHost: a.example\r\n\r\n")
		if status, _ := get(t, r, "GET"); status != 200 {
			t.Errorf("%d", status)
		}
		if status, _ := get(t, r, "GET"); status != 403 {
			t.Errorf("%d", status)
		}
	}
	// On port 80 too.
	s.serveHTTP("93.184.216.35:80", site)
	for path, allowed := range map[string]bool{"/ok": true, "/no": false} {
		conn := s.to("93.184.216.35:80")
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a.example\r\n\r\n", path)
		if !allowed {
			expectReset(t, conn)
		} else if status, _ := get(t, bufio.NewReader(conn), "GET"); status != 200 {
			t.Errorf("%d", status)
		}
	}
}

// A server that can't be believed gets nothing of a request.
func TestInterceptedServers(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example"), inspected("wrong.example"), inspected("gone.example"), inspected("refused.example"), inspected("clear.example")), nil)
	for _, name := range []string{"wrong.example", "refused.example", "clear.example"} {
		s.name(name, public)
	}
	s.name("refused.example", "93.184.216.36")
	s.name("clear.example", "93.184.216.37")
	s.serveTLS(public+":443", &site{})
	s.serve("93.184.216.37:443", echo)
	for host, want := range map[string]string{
		"wrong.example":   "forage: the server's certificate can't be verified\n",
		"gone.example":    "forage: the server's name can't be looked up\n",
		"refused.example": "forage: the server refuses the connection\n",
		"clear.example":   "forage: the server can't be reached, or does not answer as it should\n",
	} {
		for _, http2 := range []bool{false, true} {
			res, err := s.client(http2).Get("https://" + host + "/")
			if status, body := answer(t, res, err); status != http.StatusBadGateway || body != want {
				t.Errorf("%s: %d, %q", host, status, body)
			}
		}
	}
	e := s.log.wait(t, "of the failure", func(e audit.Event) bool { return e.Host == "wrong.example" && e.Status == 502 })
	if e.Kind != audit.HTTP || !strings.Contains(e.Reason, "x509") {
		t.Errorf("%+v", e)
	}
}

// Without an authority nothing that has to be looked into goes on.
func TestNotInspected(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example")), func(c *Config) { c.Authority = (*tlsmitm.Authority)(nil) })
	conn := tls.Client(s.toName("a.example", 443), &tls.Config{ServerName: "a.example", InsecureSkipVerify: true})
	if err := conn.Handshake(); err == nil {
		t.Error("went through")
	}
	s.denied("not-inspected")
	if _, dials := s.seen(); len(dials) > 0 {
		t.Errorf("dialled %v", dials)
	}
}

// On other ports what is looked into is TLS or, where nothing secret is at stake, HTTP in the
// clear.
func TestInterceptedOtherPorts(t *testing.T) {
	s := newSecureWorld(t, looked(t, forage.Rule{Host: "a.example", Methods: []string{"GET"}}), nil)
	site := &site{}
	s.serveTLS(public+":8443", site)
	s.serveHTTP(public+":8080", site)
	res, err := s.client(true).Get("https://a.example:8443/tls")
	if status, body := answer(t, res, err); status != 200 || body != "GET a.example:8443 /tls" {
		t.Errorf("%d, %q", status, body)
	}
	conn := s.toName("a.example", 8080)
	io.WriteString(conn, "GET /clear HTTP/1.1\r\nHost: a.example:8080\r\n\r\nPOST /clear HTTP/1.1\r\nHost: a.example:8080\r\nContent-Length: 0\r\n\r\n")
	r := bufio.NewReader(conn)
	if status, body := get(t, r, "GET"); status != 200 || body != "GET a.example:8080 /clear" {
		t.Errorf("%d, %q", status, body)
	}
	if _, err := r.ReadByte(); err == nil {
		t.Error("a method that no rule allows was answered")
	}
	ssh := s.toName("a.example", 22)
	io.WriteString(ssh, "SSH-2.0-x\r\n")
	expectReset(t, ssh)
	s.denied("not-http")
}
