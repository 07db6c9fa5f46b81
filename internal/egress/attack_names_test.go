package egress

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"forage/internal/audit"
	"forage/internal/policy"
)

// lookAlikes are spellings of a name, and of what only looks like it. True are those that mean it.
var lookAlikes = map[string]bool{
	"a.example": true, "A.EXAMPLE": true, "a.example.": true, "A.Example.": true, "\uff41.example": true, "a\u3002example": true, "a\uff0eexample": true, "\u24d0.example": true,
	"a.example..": false, ".a.example": false, "a..example": false, "\u0430.example": false, "xn--80a.example": false, "a.ex\u00e4mple": false, "a.example\u200b.b.example": false,
	"a.example.b.example": false, "xa.example": false, "a-example": false, "a%2eexample": false, "a.example%00.b.example": false, "a.example%20": false, "a.example\u00ad.net": false,
	"a.example,b.example": false, "a.example;b.example": false, "b.example#a.example": false, "b.example\\a.example": false, "user@a.example": false, "a.example@b.example": false,
	"[a.example]": false, "a.example/": false, "a_example": false, "*.example": false, "xn--a.example": false, "xn--.example": false, "a.exa\u212bmple": false, "a.example:443:80": false,
}

// hiddenAddresses are spellings of addresses that nobody may reach.
var hiddenAddresses = []string{
	"127.0.0.1", "0x7f.1", "0x7f.0.0.1", "017700000001", "2130706433", "127.1", "127.0.1", "0177.0.0.01", "0x7f000001", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]",
	"\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021", "\u2460\u2461\u2466.0.0.1", "127.0.0.1.", "0", "0.0.0.0", "[::]", "169.254.169.254", "0xa9fea9fe", "2852039166", "[::ffff:a9fe:a9fe]", "[64:ff9b::169.254.169.254]",
	"[2002:7f00:1::]", "[fe80::1%25lo]", "10.0.0.1", "012.0.0.1", "0x0a.0.0.1", "167772161", "[fd00::1]", "256.0.0.1", "0300.0250.1", "4294967297", "1.2.3.4.5", "[::127.0.0.1]", "localhost", "localhost.", "LOCALHOST",
}

// askedOf is a server that notes the names that it is asked by, in TLS and in HTTP.
type askedOf struct {
	mu    sync.Mutex
	names []string
}

func (a *askedOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := r.Host
	if r.TLS != nil {
		name += " " + r.TLS.ServerName
	}
	a.names = append(a.names, name)
}

func (a *askedOf) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.names)
}

// A name is the same in whatever way it is written, and what only looks like it is another;
// wherever it is said.
func TestLookAlikes(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example")), func(c *Config) {
		c.Credentials = bound(t, &vault{value: testSecret}, "model", "a.example")
	})
	site := &askedOf{}
	s.serveTLS(public+":443", site)
	s.serveHTTP(public+":80", site)
	ways := map[string]func(name string) bool{ // whether the server was asked
		"CONNECT": func(name string) bool {
			conn, _, status := s.connectProxy(name + ":443")
			if !strings.Contains(status, " 200 ") {
				return false
			}
			secure := tls.Client(conn, &tls.Config{ServerName: "a.example", RootCAs: s.inside, NextProtos: []string{"http/1.1"}})
			io.WriteString(secure, "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
			got, _ := io.ReadAll(secure)
			return bytes.Contains(got, []byte(" 200 "))
		},
		"absolute": func(name string) bool {
			conn := s.connect(s.proxy)
			fmt.Fprintf(conn, "GET http://%s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", name, name)
			got, _ := io.ReadAll(conn)
			return bytes.Contains(got, []byte(" 200 "))
		},
		"Host inside TLS": func(name string) bool {
			conn, r := s.secure("a.example")
			fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", name)
			got, _ := io.ReadAll(r)
			return bytes.Contains(got, []byte(" 200 "))
		},
		"Host on port 80": func(name string) bool {
			conn := s.toName("a.example", 80)
			fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", name)
			got, _ := io.ReadAll(conn)
			return bytes.Contains(got, []byte(" 200 "))
		},
		":authority": func(name string) bool {
			return s.rawHTTP2("a.example").ask(t, ":method", "GET", ":scheme", "https", ":authority", name, ":path", "/") == "200"
		},
	}
	for way, asks := range ways {
		for name, same := range lookAlikes {
			before := site.count()
			went := asks(name)
			if asked := site.count() > before; asked != went || went && !same {
				t.Errorf("%s, %q: answered %v, the server was asked %v", way, name, went, asked)
			}
			if plain := strings.Trim(strings.ToLower(name), "."); same && plain == "a.example" && !went {
				t.Errorf("%s, %q was refused", way, name)
			}
		}
		for _, addr := range hiddenAddresses {
			before := site.count()
			if asks(addr) || site.count() > before {
				t.Errorf("%s, %q: went through", way, addr)
			}
		}
	}
	for _, name := range site.names {
		if name != "a.example a.example" && name != "a.example" {
			t.Errorf("a server was asked as %q", name)
		}
	}
	// A gateway's name is what is written, and nothing else leads there.
	for path, want := range map[string]bool{"model": true, "Model": false, "%6dodel": false, "model.": false, "model%2f": false, "./model": false, "x/../model": false, "\uff4dodel": false, "a.example": false, "/model": false, "model;x": false} {
		before := site.count()
		conn := s.connect(s.proxy)
		fmt.Fprintf(conn, "GET /%s/ HTTP/1.1\r\nHost: 127.0.0.1:18080\r\nConnection: close\r\n\r\n", path)
		io.ReadAll(conn)
		if asked := site.count() > before; asked != want {
			t.Errorf("the gateway at %q: %v", path, asked)
		}
	}
	_, dials := s.seen()
	for _, addr := range dials {
		if addr.Addr().String() != public {
			t.Errorf("dialled %s", addr)
		}
	}
}

// The gateway and every literal address, in a sandbox that may reach everything public.
func TestHiddenAddressesInFull(t *testing.T) {
	s := newSecureWorld(t, mustPolicy(t, "full"), func(c *Config) { c.Credentials = bound(t, &vault{value: testSecret}, "model", "a.example") })
	for _, addr := range hiddenAddresses {
		if _, _, status := s.connectProxy(addr + ":443"); strings.Contains(status, " 200 ") {
			t.Errorf("CONNECT %s: %s", addr, status)
		}
		for _, text := range []string{
			fmt.Sprintf("GET http://%s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", addr, addr),
			fmt.Sprintf("GET http://%s:8080/ HTTP/1.1\r\nHost: %s:8080\r\nConnection: close\r\n\r\n", addr, addr),
			fmt.Sprintf("GET /%s/x HTTP/1.1\r\nHost: 127.0.0.1:18080\r\nConnection: close\r\n\r\n", addr),
			fmt.Sprintf("GET /model/../%s/x HTTP/1.1\r\nHost: %s:18080\r\nConnection: close\r\n\r\n", addr, addr),
		} {
			conn := s.connect(s.proxy)
			io.WriteString(conn, text)
			if got, _ := io.ReadAll(conn); bytes.Contains(got, []byte(" 200 ")) {
				t.Errorf("%q: %q", text, got)
			}
		}
	}
	_, dials := s.seen()
	for _, addr := range dials {
		if policy.Classify(addr.Addr()) != policy.Public {
			t.Errorf("dialled %s", addr)
		}
	}
}

// What is looked into, and the gateway, is led to no private address by a resolver that
// says one thing first and another later; a connection to where it was first is not used for long.
func TestInterceptedRebinding(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example")), func(c *Config) { c.Credentials = bound(t, &vault{value: testSecret}, "model", "a.example") })
	s.serveTLS(public+":443", http.HandlerFunc(teller))
	for _, addr := range []string{"127.0.0.1:443", "10.0.0.1:443", "169.254.169.254:443"} {
		s.serveTLS(addr, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a private server was asked") }))
	}
	ask := map[string]func() int{
		"HTTP/1": func() int {
			res, err := s.client(false).Get("https://a.example/")
			n, _ := answer(t, res, err)
			return n
		},
		"HTTP/2": func() int {
			res, err := s.client(true).Get("https://a.example/")
			n, _ := answer(t, res, err)
			return n
		},
		"gateway": func() int {
			conn := s.connect(s.proxy)
			io.WriteString(conn, "GET /model/ HTTP/1.1\r\nHost: 127.0.0.1:18080\r\n\r\n")
			n, _ := get(t, bufio.NewReader(conn), "GET")
			return n
		},
		"WebSocket": func() int {
			conn, r := s.secure("a.example")
			io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			n, _ := get(t, r, "GET")
			return n
		},
	}
	for way, asks := range ask {
		for _, later := range [][]string{{"127.0.0.1"}, {"10.0.0.1"}, {public, "127.0.0.1"}, {"169.254.169.254", public}, {"::ffff:127.0.0.1"}, {"::1"}} {
			s.engine.SetPolicy(looked(t, inspected("a.example"))) // no connection is kept
			s.name("a.example", public)
			if status := asks(); status != 200 {
				t.Errorf("%s: %d", way, status)
			}
			s.name("a.example", later...)
			asks() // a connection that is kept leads to where it was
			s.engine.SetPolicy(looked(t, inspected("a.example")))
			if status := asks(); status != 403 {
				t.Errorf("%s, to %v: %d", way, later, status)
			}
		}
	}
	if e := s.denied(policy.RulePrivate); e.Host != "a.example" || e.Kind != audit.HTTP {
		t.Errorf("%+v", e)
	}
	_, dials := s.seen()
	for _, addr := range dials {
		if addr != netip.MustParseAddrPort(public+":443") {
			t.Errorf("dialled %s", addr)
		}
	}
}

// A policy that no longer allows a host takes the connections to it away, from all that might use
// them.
func TestKeptConnectionsEndWithThePolicy(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example")), func(c *Config) { c.Credentials = bound(t, &vault{value: testSecret}, "model", "a.example") })
	site := &site{}
	s.serveTLS(public+":443", site)
	clients := []*http.Client{s.client(false), s.client(true)}
	gateway := s.connect(s.proxy)
	r := bufio.NewReader(gateway)
	all := func() (statuses []int) {
		for _, client := range clients {
			res, err := client.Get("https://a.example/")
			if err != nil {
				statuses = append(statuses, 0)
				continue
			}
			n, _ := answer(t, res, nil)
			statuses = append(statuses, n)
		}
		io.WriteString(gateway, "GET /model/ HTTP/1.1\r\nHost: 127.0.0.1:18080\r\n\r\n")
		n, _ := get(t, r, "GET")
		return append(statuses, n)
	}
	if got := fmt.Sprint(all()); got != "[200 200 200]" {
		t.Error(got)
	}
	s.engine.SetPolicy(looked(t, inspected("a.example:8443"))) // the name is still one to ask for
	before := len(site.requests())
	if got := fmt.Sprint(all()); strings.Contains(got, "200") || len(site.requests()) > before {
		t.Errorf("%s, %q", got, site.requests())
	}
}

// inRecords writes the first record of TLS as many of a few bytes each.
type inRecords struct {
	net.Conn
	size int
	done bool
}

func (c *inRecords) Write(p []byte) (int, error) {
	if c.done || len(p) < 5 {
		return c.Conn.Write(p)
	}
	c.done = true
	var wire []byte
	for body := p[5:]; len(body) > 0; {
		n := min(c.size, len(body))
		wire = append(append(wire, p[0], p[1], p[2], byte(n>>8), byte(n)), body[:n]...)
		body = body[n:]
	}
	_, err := c.Conn.Write(wire)
	return len(p), err
}

// A ClientHello is the same in however many records it comes, and however long it is up to a bound.
func TestInterceptedLongHello(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example")), nil)
	s.serveTLS(public+":443", &site{})
	long := func(n int) []string {
		protocols := []string{"http/1.1"}
		for i := range n / 204 {
			protocols = append(protocols, fmt.Sprintf("%0200d", i))
		}
		return protocols
	}
	for name, tt := range map[string]struct {
		size, hello int
		name        string
		rule        string
	}{
		"a byte each":         {1, 0, "a.example", ""},
		"seven bytes each":    {7, 0, "a.example", ""},
		"another name":        {3, 0, "b.example", "sni-mismatch"},
		"15 KB":               {1 << 14, 15 << 10, "a.example", ""},
		"20 KB":               {1 << 14, 20 << 10, "a.example", ""},
		"20 KB, a few each":   {100, 20 << 10, "a.example", ""},
		"20 KB, another name": {5000, 20 << 10, "b.example", "sni-mismatch"},
		"60 KB":               {1 << 14, 60 << 10, "a.example", "not-tls"},
		"30 KB, a byte each":  {1, 30 << 10, "a.example", "not-tls"},
	} {
		before := len(s.log.all())
		conn := tls.Client(&inRecords{Conn: s.toName("a.example", 443), size: tt.size}, &tls.Config{ServerName: tt.name, RootCAs: s.inside, NextProtos: long(tt.hello), InsecureSkipVerify: tt.rule != ""})
		err := conn.Handshake()
		if (err == nil) != (tt.rule == "") {
			t.Errorf("%s: %v", name, err)
		}
		denied := ""
		for _, e := range s.log.all()[before:] {
			if e.Verdict == "deny" {
				denied = e.Rule
			}
		}
		if denied != tt.rule {
			t.Errorf("%s: denied by %q", name, denied)
		}
		conn.Close()
	}
}

// A second ClientHello for another name is answered by nobody, also where TLS ends here.
func TestInterceptedRetry(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example"), inspected("b.example")), nil)
	site := &site{}
	s.serveTLS(public+":443", site)
	// The server knows none of what the first has a key for.
	config := &tls.Config{ServerName: "a.example", RootCAs: s.inside, MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519MLKEM768, tls.CurveP521}, NextProtos: []string{"http/1.1"}}
	for _, changed := range []bool{false, true} {
		conn := &secondHello{Conn: s.toName("a.example", 443), change: func(b []byte) []byte {
			if changed {
				return bytes.ReplaceAll(b, []byte("a.example"), []byte("b.example"))
			}
			return b
		}}
		secure := tls.Client(conn, config)
		if err := secure.Handshake(); (err != nil) != changed {
			t.Errorf("changed %v: %v", changed, err)
		}
		if !changed && !secure.ConnectionState().HelloRetryRequest {
			t.Error("no second ClientHello was asked for")
		}
		secure.Close()
	}
	if got := site.requests(); len(got) > 0 {
		t.Errorf("the server saw %q", got)
	}
}

// oneTicket gives the same ticket for whatever server.
type oneTicket struct {
	mu    sync.Mutex
	state *tls.ClientSessionState
	asked int
}

func (c *oneTicket) Get(string) (*tls.ClientSessionState, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	return c.state, c.state != nil
}

func (c *oneTicket) Put(_ string, state *tls.ClientSessionState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == nil {
		c.state = state
	}
}

// A ticket is for the name that it was given for: with that of another a session begins anew, and
// its requests are for its own name.
func TestTicketsOfAnotherName(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		s := newSecureWorld(t, looked(t, inspected("a.example"), inspected("b.example")), nil)
		site := &site{}
		s.serveTLS(public+":443", site)
		tickets := &oneTicket{}
		open := func(host string) (*tls.Conn, error) {
			conn := tls.Client(s.toName(host, 443), &tls.Config{ServerName: host, InsecureSkipVerify: true, ClientSessionCache: tickets, MaxVersion: version, NextProtos: []string{"http/1.1"}})
			return conn, conn.Handshake()
		}
		for i, tt := range []struct {
			host    string
			resumed bool
		}{{"a.example", false}, {"a.example", true}, {"b.example", false}} {
			conn, err := open(tt.host)
			if err != nil {
				t.Errorf("%d: %v", i, err)
				continue
			}
			if state := conn.ConnectionState(); state.DidResume != tt.resumed || state.PeerCertificates[0].Subject.CommonName != tt.host {
				t.Errorf("%x, %s: resumed %v, as %v", version, tt.host, state.DidResume, state.PeerCertificates[0].Subject)
			}
			r := bufio.NewReader(conn)
			fmt.Fprintf(conn, "GET /%d HTTP/1.1\r\nHost: %s\r\n\r\n", i, tt.host)
			get(t, r, "GET") // the ticket comes with it
			io.WriteString(conn, "GET / HTTP/1.1\r\nHost: c.example\r\n\r\n")
			if status, _ := get(t, r, "GET"); status != 403 {
				t.Errorf("%d", status)
			}
		}
	}
}

// An allowed address is no way around: an encrypted ClientHello, or one without a name, gets no
// further there than where a name was judged.
func TestHelloToAnAddress(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example"), inspected(public)), nil)
	site := &site{}
	s.serveTLS(public+":443", site)
	sendSplit(s.to(public+":443"), withECH(t))
	s.denied("ech")
	for _, sni := range []string{"b.example", "a.example.b.example"} {
		conn := tls.Client(s.to(public+":443"), &tls.Config{ServerName: sni, InsecureSkipVerify: true})
		if conn.Handshake() == nil {
			t.Errorf("%s went through", sni)
		}
	}
	s.denied("sni-mismatch")
	// Without a name it is for the address, and so are its requests.
	conn := tls.Client(s.to(public+":443"), &tls.Config{InsecureSkipVerify: true})
	r := bufio.NewReader(conn)
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n")
	if status, _ := get(t, r, "GET"); status != 403 {
		t.Errorf("%d", status)
	}
	if got := site.requests(); len(got) > 0 {
		t.Errorf("the server saw %q", got)
	}
}
