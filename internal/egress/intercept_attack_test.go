package egress

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"forage"
	"forage/internal/audit"
	"forage/internal/egress/tlsmitm"
	"forage/internal/policy"
)

// What is refused on port 80 is refused inside TLS, also after a good request,
// and the client is told.
func TestInterceptRefuses(t *testing.T) {
	first := "GET /first HTTP/1.1\r\nHost: a.example\r\n\r\n"
	for name, tt := range map[string]struct{ bytes, rule string }{
		"another Host":       {"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n", ruleHost},
		"another port":       {"GET / HTTP/1.1\r\nHost: a.example:8443\r\n\r\n", ruleHost},
		"port 80":            {"GET / HTTP/1.1\r\nHost: a.example:80\r\n\r\n", ruleHost},
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
		"binary":             {"\x00\x01\x02\x03", "not-http"},
	} {
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

// A request that is hidden in another's body stays a body.
func TestInterceptedSmuggling(t *testing.T) {
	for _, outside := range [][]string{nil, {"http/1.1"}} {
		s := newSecureWorld(t, looked(t, inspected("a.example")), nil)
		site := &site{}
		s.serveTLS(public+":443", site, outside...)
		hidden := "GET /hidden HTTP/1.1\r\nHost: internal\r\n\r\n"
		conn, r := s.secure("a.example")
		fmt.Fprintf(conn, "POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: %d\r\n\r\n%s", len(hidden), hidden)
		get(t, r, "POST")
		if got := site.requests(); len(got) != 1 || got[0] != fmt.Sprintf("POST a.example /x %q", hidden) {
			t.Errorf("the server saw %q", got)
		}
	}
}

// rawHTTP2 is a connection of HTTP/2 on which anything can be said.
type rawHTTP2 struct {
	*http2.Framer
	stream uint32
}

func (s *secureWorld) rawHTTP2(host string) *rawHTTP2 {
	s.t.Helper()
	conn := tls.Client(s.toName(host, 443), &tls.Config{ServerName: host, RootCAs: s.inside, NextProtos: []string{"h2"}})
	if err := conn.Handshake(); err != nil {
		s.t.Fatal(err)
	}
	io.WriteString(conn, http2.ClientPreface)
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	framer.WriteSettings()
	return &rawHTTP2{framer, 1}
}

// ask sends a request of these fields and returns the status of its answer; "" is a refusal without one.
func (c *rawHTTP2) ask(t *testing.T, fields ...string) string {
	t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	id := c.stream
	c.stream += 2
	if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			return ""
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			if frame.StreamID == id {
				return frame.PseudoValue("status")
			}
		case *http2.RSTStreamFrame:
			if frame.StreamID == id {
				return ""
			}
		case *http2.GoAwayFrame:
			return ""
		}
	}
}

// Every request of HTTP/2 is for the name that the connection was judged by.
func TestInterceptedAuthority(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example"), inspected("b.example")), nil)
	site := &site{}
	s.serveTLS(public+":443", site)
	good := []string{":method", "GET", ":scheme", "https", ":authority", "a.example", ":path", "/good"}
	c := s.rawHTTP2("a.example")
	want := 0
	for name, tt := range map[string]struct {
		fields []string
		status string
	}{
		"another :authority":            {[]string{":method", "GET", ":scheme", "https", ":authority", "b.example", ":path", "/"}, "403"},
		"another port":                  {[]string{":method", "GET", ":scheme", "https", ":authority", "a.example:80", ":path", "/"}, "403"},
		"no :authority":                 {[]string{":method", "GET", ":scheme", "https", ":path", "/"}, "403"},
		"Host alone, another":           {[]string{":method", "GET", ":scheme", "https", ":path", "/", "host", "b.example"}, "403"},
		"Host beside :authority":        {[]string{":method", "GET", ":scheme", "https", ":authority", "a.example", ":path", "/", "host", "b.example"}, "403"},
		"two Hosts":                     {[]string{":method", "GET", ":scheme", "https", ":path", "/", "host", "a.example", "host", "b.example"}, "403"},
		"another scheme":                {[]string{":method", "GET", ":scheme", "http", ":authority", "a.example", ":path", "/good"}, "200"}, // it is https that is sent on
		"absolute":                      {[]string{":method", "GET", ":scheme", "https", ":authority", "a.example", ":path", "https://b.example/"}, "403"},
		"CONNECT":                       {[]string{":method", "CONNECT", ":authority", "a.example:443"}, "403"},
		"the same, in another spelling": {[]string{":method", "GET", ":scheme", "https", ":authority", "A.Example.:443", ":path", "/good"}, "200"},
	} {
		if got := c.ask(t, tt.fields...); got != tt.status {
			t.Errorf("%s: %q, want %s", name, got, tt.status)
		}
		// The others on the connection go on.
		if got := c.ask(t, good...); got != "200" {
			t.Fatalf("after %s: %q", name, got)
		}
		want++
		if tt.status == "200" {
			want++
		}
	}
	// What no server should understand ends the stream, or the connection, and never reaches the server.
	for name, fields := range map[string][]string{
		"two paths":          {":method", "GET", ":scheme", "https", ":authority", "a.example", ":path", "/", ":path", "/x"},
		"two authorities":    {":method", "GET", ":scheme", "https", ":authority", "a.example", ":authority", "b.example", ":path", "/"},
		"transfer-encoding":  {":method", "POST", ":scheme", "https", ":authority", "a.example", ":path", "/", "transfer-encoding", "chunked"},
		"a line in a field":  {":method", "GET", ":scheme", "https", ":authority", "a.example", ":path", "/", "x", "y\r\nhost: b.example"},
		"a line in the path": {":method", "GET", ":scheme", "https", ":authority", "a.example", ":path", "/ HTTP/1.1\r\nhost: b.example\r\n\r\n"},
		"a path without /":   {":method", "GET", ":scheme", "https", ":authority", "a.example", ":path", "x"},
		"user in :authority": {":method", "GET", ":scheme", "https", ":authority", "x@a.example", ":path", "/"},
		"no path":            {":method", "GET", ":scheme", "https", ":authority", "a.example"},
		"a pseudo-field":     {":method", "GET", ":scheme", "https", ":authority", "a.example", ":path", "/", ":protocol", "websocket"},
	} {
		if got := s.rawHTTP2("a.example").ask(t, fields...); got != "" && got[0] != '4' {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := site.requests(); len(got) != want {
		t.Errorf("the server saw %d requests: %q", len(got), got)
	}
	for _, seen := range site.requests() {
		if seen != "GET a.example /good" {
			t.Errorf("the server saw %q", seen)
		}
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

// On other ports what is looked into is TLS or, where nothing secret is at stake, HTTP in the clear.
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
