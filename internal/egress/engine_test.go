package egress

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"

	"forage/internal/audit"
	"forage/internal/policy"
)

const public = "93.184.216.34"

func TestNewRefuses(t *testing.T) {
	log := &memoryLog{}
	address := netip.MustParseAddrPort("10.0.0.1:1")
	for name, config := range map[string]Config{
		"no audit log":        {},
		"a proxy over TLS":    {Audit: log, UpstreamProxy: &url.URL{Scheme: "https", Host: "proxy"}},
		"a proxy without one": {Audit: log, UpstreamProxy: &url.URL{Scheme: "http"}},
		"a proxy's port":      {Audit: log, UpstreamProxy: &url.URL{Scheme: "http", Host: "proxy:0"}},
		"a name without port": {Audit: log, Resolve: map[string]netip.AddrPort{"a.example": address}},
		"no name":             {Audit: log, Resolve: map[string]netip.AddrPort{":443": address}},
		"no address":          {Audit: log, Resolve: map[string]netip.AddrPort{"a.example:443": {}}},
	} {
		if _, err := New(config); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// Questions are answered by the policy, and nothing is looked up for them.
func TestDNS(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "allowed.example", "db:5432"), nil)
	w.name("allowed.example", public)
	for _, tt := range []struct {
		name    string
		qtype   dnsmessage.Type
		rcode   dnsmessage.RCode
		answers int
	}{
		{"allowed.example", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"Allowed.EXAMPLE", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, 1},
		{"allowed.example", 65, dnsmessage.RCodeSuccess, 0},
		{"db", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"secret-data.evil.example", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"allowed.example.evil.example", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"sub.allowed.example", dnsmessage.TypeTXT, dnsmessage.RCodeNameError, 0},
		{"host.forage.internal", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"localhost", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"127.0.0.1", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
	} {
		m := w.ask(tt.name, tt.qtype)
		if m.RCode != tt.rcode || len(m.Answers) != tt.answers {
			t.Errorf("%s %v: %v, %v", tt.name, tt.qtype, m.RCode, m.Answers)
		}
	}
	if lookups, dials := w.seen(); len(lookups)+len(dials) > 0 {
		t.Errorf("looked up %v, dialled %v", lookups, dials)
	}
	var lines []string
	for _, e := range w.log.all() {
		lines = append(lines, strings.Join([]string{string(e.Kind), e.Verdict, e.Host, e.Method, e.Rule}, " "))
	}
	want := []string{
		"dns allow allowed.example A allowed.example", // AAAA is the same decision
		"dns allow allowed.example HTTPS allowed.example",
		"dns allow db A db:5432",
		"dns deny secret-data.evil.example A default-deny",
		"dns deny allowed.example.evil.example A default-deny",
		"dns deny sub.allowed.example TXT default-deny",
		"dns deny host.forage.internal A default-deny",
		"dns deny localhost A reserved-name",
		"dns deny 127.0.0.1 A malformed",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}

// On a port of no known protocol bytes are moved at once: the server may speak first.
func TestOtherPorts(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "git.example:22"), nil)
	w.name("git.example", public)
	w.serve(public+":22", echo)
	conn := w.toName("git.example", 22)
	r := bufio.NewReader(conn)
	expectLine(t, r, "hello\n")
	io.WriteString(conn, "ping\n")
	expectLine(t, r, "ping\n")
	eventually(t, "live counters", func() bool {
		c := w.engine.Counters()
		return c.Open == 1 && c.BytesIn == 11 && c.BytesOut == 5
	})
	conn.(*net.TCPConn).CloseWrite()
	if rest, err := io.ReadAll(r); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	got := w.closed(audit.Connect)
	got.Millis = 0
	want := audit.Event{Sandbox: "box", Kind: audit.Connect, Verdict: "allow", Host: "git.example", Port: 22, Rule: "git.example:22", Reason: "closed", BytesIn: 11, BytesOut: 5}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if lookups, dials := w.seen(); len(lookups) != 1 || len(dials) != 1 || dials[0].String() != public+":22" {
		t.Errorf("%v, %v", lookups, dials)
	}
}

// Destinations that are refused before anything is looked up or dialled.
func TestRefusedDestinations(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "allowed.example:22", "10.0.0.7:8443", "93.184.216.35"), nil)
	w.ask("allowed.example", dnsmessage.TypeA)
	for addr, rule := range map[string]string{
		"127.0.0.1:22":            "own-listener",
		"127.8.8.8:80":            "own-listener",
		"[::1]:80":                "own-listener",
		"[::ffff:127.0.0.1]:80":   "own-listener",
		"198.18.0.1:23":           "default-deny", // the port is not the allowed one
		"198.18.0.2:22":           "unknown-address",
		"198.18.0.0:22":           "unknown-address",
		"198.19.255.255:22":       "unknown-address",
		"[2001:2::2]:22":          "unknown-address",
		"8.8.8.8:443":             "default-deny",
		"[2606:4700::1]:443":      "default-deny",
		"10.0.0.7:22":             "private-address",
		"192.168.1.1:80":          "private-address",
		"169.254.169.254:80":      "private-address",
		"[fd00:ec2::254]:80":      "private-address",
		"[fe80::1]:80":            "private-address",
		"100.64.0.1:80":           "private-address",
		"0.0.0.0:80":              "private-address",
		"224.0.0.1:80":            "private-address",
		"255.255.255.255:80":      "private-address",
		"[64:ff9b::a00:7]:8443":   "private-address",
		"[2002:7f00:1::1]:80":     "private-address",
		"[::ffff:10.0.0.8]:80":    "private-address",
		"93.184.216.35:0":         "malformed",
		"[2001:0:4136::fdd2]:443": "private-address",
	} {
		before := len(w.log.all())
		expectReset(t, w.to(addr))
		events := w.log.all()[before:]
		if len(events) != 1 || events[0].Verdict != "deny" || events[0].Rule != rule || events[0].Reason == "" {
			t.Errorf("%s: %+v, want a denial by %s", addr, events, rule)
		}
	}
	if lookups, dials := w.seen(); len(lookups)+len(dials) > 0 {
		t.Errorf("looked up %v, dialled %v", lookups, dials)
	}
}

func TestLiteralAddresses(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "full", "10.0.0.7:8443", "[fd00::7]:22"), nil)
	for _, addr := range []string{public + ":22", "10.0.0.7:8443", "[2606:4700::1]:22", "[fd00::7]:22"} {
		w.serve(addr, echo)
		expectLine(t, bufio.NewReader(w.to(addr)), "hello\n")
	}
	if lookups, _ := w.seen(); len(lookups) > 0 {
		t.Errorf("looked up %v", lookups)
	}
}

func TestNoPolicyNoNetwork(t *testing.T) {
	for _, p := range []policy.Policy{{}, mustPolicy(t, "none", "a.example")} {
		w := newWorld(t, p, nil)
		if m := w.ask("a.example", dnsmessage.TypeA); m.RCode != dnsmessage.RCodeNameError {
			t.Errorf("%v", m.RCode)
		}
		expectReset(t, w.to(public+":443"))
		if _, _, status := w.connectProxy("a.example:443"); !strings.Contains(status, "403") {
			t.Error(status)
		}
	}
}

// What can't be recorded is denied, everywhere, and nothing is looked up.
func TestAuditFailureDenies(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "full"), nil)
	w.name("a.example", public)
	w.serve(public+":22", echo)
	w.ask("a.example", dnsmessage.TypeA)
	w.log.setFailing(true)
	if m := w.ask("b.example", dnsmessage.TypeA); m.RCode != dnsmessage.RCodeServerFailure || len(m.Answers) > 0 {
		t.Errorf("%+v", m)
	}
	expectReset(t, w.toName("a.example", 22)) // the name is known already
	if _, _, status := w.connectProxy("a.example:22"); strings.Contains(status, "200") {
		t.Error(status)
	}
	conn := w.connect(w.proxy)
	io.WriteString(conn, "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n")
	if got, _ := io.ReadAll(conn); bytes.Contains(got, []byte(" 200 ")) {
		t.Errorf("%q", got)
	}
	if lookups, dials := w.seen(); len(lookups)+len(dials) > 0 {
		t.Errorf("looked up %v, dialled %v", lookups, dials)
	}
	w.log.setFailing(false)
	expectLine(t, bufio.NewReader(w.toName("a.example", 22)), "hello\n")

	// A denial that can't be recorded is one all the same, and its answer says nothing.
	w.engine.SetPolicy(mustPolicy(t, "none"))
	w.log.setFailing(true)
	if m := w.ask("a.example", dnsmessage.TypeA); m.RCode != dnsmessage.RCodeServerFailure {
		t.Errorf("%+v", m)
	}
	expectReset(t, w.to("198.18.0.1:22"))
}

func TestDNSOverStreams(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "a.example"), nil)
	q := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("a.example."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	packed, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	for name, conn := range map[string]net.Conn{"its listener": w.connect(w.dnsStream), "port 53 of anything": w.to("8.8.8.8:53")} {
		conn.Write(append([]byte{0, byte(len(packed))}, packed...))
		reply := make([]byte, 2)
		if _, err := io.ReadFull(conn, reply); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	junk := w.connect(w.dnsStream)
	io.WriteString(junk, "GET / HTTP/1.1\r\n\r\n")
	expectReset(t, junk)
}

func TestForwardedToTheProxy(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "a.example:22"), nil)
	w.name("a.example", public)
	w.serve(public+":22", echo)
	conn := w.to("127.0.0.1:18080")
	io.WriteString(conn, "CONNECT a.example:22 HTTP/1.1\r\n\r\n")
	r := bufio.NewReader(conn)
	expectLine(t, r, "HTTP/1.1 200 Connection established\r\n")
	expectLine(t, r, "\r\n")
	expectLine(t, r, "hello\n")
}
