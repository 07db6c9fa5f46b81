package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

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

// A hostile resolver's answers are checked, every one, and only what was checked is dialled.
func TestAnswersAreChecked(t *testing.T) {
	p := mustPolicy(t, "restricted", "bare.example", "named.example:22", "*.wild.example:22", "10.0.0.9:22", "169.254.169.254:80")
	for _, tt := range []struct {
		host    string
		answers []string
		local   string // a network of the host
		allowed bool
	}{
		{"bare.example", []string{public}, "", true},
		{"bare.example", []string{"::ffff:" + public}, "", true},
		{"bare.example", []string{"10.0.0.1"}, "", false},
		{"bare.example", []string{"10.0.0.9"}, "", true},
		{"bare.example", []string{"127.0.0.1"}, "", false},
		{"bare.example", []string{"::1"}, "", false},
		{"bare.example", []string{"::ffff:127.0.0.1"}, "", false},
		{"bare.example", []string{"0.0.0.0"}, "", false},
		{"bare.example", []string{"169.254.169.254"}, "", false},
		{"bare.example", []string{"198.18.0.1"}, "", false},
		{"bare.example", []string{"fe80::1%eth0"}, "", false},
		{"bare.example", []string{public + "", "192.168.1.1"}, "", false},
		{"bare.example", []string{"192.168.1.1", public}, "", false},
		{"bare.example", []string{public, "::1"}, "", false},
		{"bare.example", []string{"64:ff9b::7f00:1"}, "", false},
		{"bare.example", []string{public}, "93.184.216.0/24", false},
		{"bare.example", []string{public}, public + "/32", false},
		{"named.example", []string{public}, "93.184.216.0/24", true},
		{"named.example", []string{"192.168.1.1"}, "", true},
		{"named.example", []string{"fd00::1"}, "", true},
		{"named.example", []string{"127.0.0.1"}, "", false},
		{"named.example", []string{"169.254.169.254"}, "", false},
		{"named.example", []string{"198.18.0.1"}, "", false},
		{"a.wild.example", []string{"192.168.1.1"}, "", false},
		{"a.wild.example", []string{public}, "", true},
	} {
		w := newWorld(t, p, func(c *Config) {
			c.HostNetworks = func() ([]netip.Prefix, error) {
				if tt.local == "" {
					return nil, nil
				}
				return []netip.Prefix{netip.MustParsePrefix(tt.local)}, nil
			}
		})
		w.name(tt.host, tt.answers...)
		for _, answer := range tt.answers {
			if addr := netip.MustParseAddr(answer); addr.Zone() == "" {
				w.serve(netip.AddrPortFrom(addr.Unmap(), 22).String(), echo)
			}
		}
		conn := w.toName(tt.host, 22)
		if tt.allowed {
			expectLine(t, bufio.NewReader(conn), "hello\n")
			continue
		}
		expectReset(t, conn)
		if _, dials := w.seen(); len(dials) > 0 {
			t.Errorf("%s at %v: dialled %v", tt.host, tt.answers, dials)
		}
		rule := policy.RulePrivate
		if strings.Contains(tt.answers[0], "%") {
			rule = policy.RuleMalformed
		}
		if e := w.denied(rule); !strings.Contains(e.Reason, tt.host) {
			t.Errorf("%s at %v: %+v", tt.host, tt.answers, e)
		}
	}
}

// When the host's networks are not known, nothing is public.
func TestUnknownHostNetworks(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "full"), func(c *Config) {
		c.HostNetworks = func() ([]netip.Prefix, error) { return nil, errors.New("no netlink") }
	})
	w.name("a.example", public)
	expectReset(t, w.toName("a.example", 22))
	w.denied(policy.RulePrivate)
}

// A name that changes its address between two connections gets nowhere else
// than where the check was.
func TestRebinding(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "full"), nil)
	w.serve(public+":22", echo)
	w.serve("127.0.0.1:22", echo)
	for i := range 6 {
		if i%2 == 0 {
			w.name("rebind.example", public)
			expectLine(t, bufio.NewReader(w.toName("rebind.example", 22)), "hello\n")
		} else {
			w.name("rebind.example", "127.0.0.1")
			expectReset(t, w.toName("rebind.example", 22))
		}
	}
	lookups, dials := w.seen()
	if len(lookups) != 6 || len(dials) != 3 {
		t.Errorf("looked up %v, dialled %v", lookups, dials)
	}
}

func TestResolveAndHost(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "git.internal", "pinned.example:22", "host.forage.internal:5432"), func(c *Config) {
		c.Resolve = map[string]netip.AddrPort{
			"GIT.internal.:22": netip.MustParseAddrPort("10.0.0.7:2222"),
			"other.example:22": netip.MustParseAddrPort("10.0.0.7:2222"),
		}
	})
	w.serve("10.0.0.7:2222", echo)
	expectLine(t, bufio.NewReader(w.toName("git.internal", 22)), "hello\n")
	if m := w.ask("other.example", dnsmessage.TypeA); m.RCode != dnsmessage.RCodeNameError {
		t.Errorf("what is resolved is not thereby allowed: %v", m.RCode)
	}
	// The host's own services, by name and port alone, over either family.
	conn := w.toName("host.forage.internal", 5432)
	expectReset(t, conn)
	w.serve("[::1]:5432", echo)
	expectLine(t, bufio.NewReader(w.toName("host.forage.internal", 5432)), "hello\n")
	w.serve("127.0.0.1:5432", echo)
	expectLine(t, bufio.NewReader(w.toName("host.forage.internal", 5432)), "hello\n")
	expectReset(t, w.toName("host.forage.internal", 22))
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

func TestFailedDialResets(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "full"), nil)
	w.name("refused.example", public)
	expectReset(t, w.toName("refused.example", 22))
	expectReset(t, w.toName("unknown.example", 22))
	e := w.log.wait(t, "of the failure", func(e audit.Event) bool { return strings.Contains(e.Reason, "connection refused") })
	if e.Verdict != "allow" || e.Host != "refused.example" {
		t.Errorf("%+v", e)
	}
}

// A dead address does not keep a name from being reached.
func TestDeadAddress(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "full"), nil)
	w.name("two.example", "2606:4700::1", "2606:4700::2", public)
	w.servers[netip.MustParseAddrPort("[2606:4700::1]:22")] = "" // silent
	w.serve(public+":22", echo)
	start := time.Now()
	expectLine(t, bufio.NewReader(w.toName("two.example", 22)), "hello\n")
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	_, dials := w.seen()
	if len(dials) < 2 || dials[0].String() != "[2606:4700::1]:22" || dials[1].String() != public+":22" {
		t.Errorf("dialled %v", dials)
	}
}

func TestSetPolicy(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "keep.example:22", "drop.example:22", "named.example:22"), nil)
	w.name("keep.example", public)
	w.name("drop.example", public)
	w.name("named.example", "10.0.0.1")
	w.serve(public+":22", echo)
	w.serve("10.0.0.1:22", echo)
	open := func(host string) (net.Conn, *bufio.Reader) {
		conn := w.toName(host, 22)
		r := bufio.NewReader(conn)
		expectLine(t, r, "hello\n")
		return conn, r
	}
	keep, keepReader := open("keep.example")
	drop, _ := open("drop.example")
	named, _ := open("named.example")
	w.engine.SetPolicy(mustPolicy(t, "restricted", "keep.example", "*.example"))
	// drop.example is still below the wildcard, named.example too, but its private address is not named.
	expectReset(t, named)
	io.WriteString(drop, "still\n")
	expectLine(t, bufio.NewReader(drop), "still\n")
	w.engine.SetPolicy(mustPolicy(t, "restricted", "keep.example"))
	expectReset(t, drop)
	io.WriteString(keep, "still\n")
	expectLine(t, keepReader, "still\n")
	if e := w.denied(policy.RuleDefaultDeny); e.Host != "drop.example" || !strings.Contains(e.Reason, "changed") {
		t.Errorf("%+v", e)
	}
	w.engine.SetPolicy(policy.Policy{})
	expectReset(t, keep)
	if m := w.ask("keep.example", dnsmessage.TypeA); m.RCode != dnsmessage.RCodeNameError {
		t.Errorf("%v", m.RCode)
	}
}

// A change while a connection is being made is not overlooked.
func TestSetPolicyWhileDialling(t *testing.T) {
	for name, tt := range map[string]struct {
		after  []string
		answer string
	}{
		"nothing is allowed":  {nil, public},
		"no longer with port": {[]string{"*.example"}, "10.0.0.1"},
	} {
		started, changed := make(chan struct{}), make(chan struct{})
		w := newWorld(t, mustPolicy(t, "restricted", "a.example:22"), func(c *Config) {
			c.Lookup = func(context.Context, string) ([]netip.Addr, error) {
				close(started)
				<-changed
				return []netip.Addr{netip.MustParseAddr(tt.answer)}, nil
			}
		})
		w.serve(tt.answer+":22", echo)
		conn := w.toName("a.example", 22)
		<-started
		w.engine.SetPolicy(mustPolicy(t, "restricted", tt.after...))
		close(changed)
		expectReset(t, conn)
		w.stop()
		if _, dials := w.seen(); len(dials) > 0 {
			t.Errorf("%s: dialled %v", name, dials)
		}
	}
}

func TestConnectionLimit(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "full"), func(c *Config) { c.MaxConnections = 3 })
	w.name("a.example", public)
	w.serve(public+":22", echo)
	var conns []net.Conn
	for range 3 {
		conn := w.toName("a.example", 22)
		expectLine(t, bufio.NewReader(conn), "hello\n")
		conns = append(conns, conn)
	}
	if conn, err := net.Dial("tcp", w.proxy.Addr().String()); err == nil { // the reset may be faster
		expectReset(t, conn)
		conn.Close()
	}
	w.denied("connection-limit")
	conns[0].Close()
	w.closed(audit.Connect)
	eventually(t, "room for another", func() bool { return w.engine.Counters().Open <= 2 })
	expectLine(t, bufio.NewReader(w.toName("a.example", 22)), "hello\n")
}

// Clients that say nothing do not stay.
func TestSilentClients(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "full"), func(c *Config) { c.SniffTimeout = 200 * time.Millisecond })
	w.name("a.example", public)
	silent := w.toName("a.example", 443)
	expectReset(t, silent)
	w.denied("sniff-timeout")
	trickling := w.toName("a.example", 443)
	trickling.Write([]byte{22, 3})
	expectReset(t, trickling)
	for _, start := range []string{"", "GET / HT"} {
		for name, conn := range map[string]net.Conn{"HTTP": w.toName("a.example", 80), "the proxy": w.connect(w.proxy), "PROXY header": w.connect(w.forwarded)} {
			io.WriteString(conn, start)
			if got, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) || bytes.Contains(got, []byte(" 200 ")) {
				t.Errorf("%s, after %q: %q, %v", name, start, got, err)
			}
		}
	}
	if _, dials := w.seen(); len(dials) > 0 {
		t.Errorf("dialled %v", dials)
	}
}

// Close ends everything: connections in every state, and all goroutines.
func TestCloseLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	w := newWorld(t, mustPolicy(t, "full"), nil)
	w.name("a.example", public)
	w.name("dead.example", "93.184.216.99")
	w.serve(public+":22", echo)
	w.serve(public+":80", func(conn net.Conn) { io.Copy(io.Discard, conn) })
	w.servers[netip.MustParseAddrPort("93.184.216.99:22")] = ""
	spliced := w.toName("a.example", 22)
	expectLine(t, bufio.NewReader(spliced), "hello\n")
	conns := []net.Conn{spliced, w.toName("a.example", 443), w.toName("a.example", 80), w.toName("dead.example", 22),
		w.connect(w.proxy), w.connect(w.forwarded), w.connect(w.dnsStream)}
	waiting := w.connect(w.proxy)
	io.WriteString(waiting, "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n")
	tunnel, _, status := w.connectProxy("a.example:22")
	if !strings.Contains(status, "200") {
		t.Fatal(status)
	}
	if err := w.engine.Close(); err != nil {
		t.Error(err)
	}
	for i, conn := range append(conns, waiting, tunnel) {
		if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("connection %d is still open", i)
		}
		conn.Close()
	}
	if c := w.engine.Counters(); c.Open != 0 {
		t.Errorf("%+v", c)
	}
	w.engine.SetPolicy(policy.Policy{}) // harmless
	w.engine.Serve(Listeners{})
	w.stop()
	eventually(t, "end of all goroutines", func() bool { return runtime.NumGoroutine() <= before })
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

func TestTLS(t *testing.T) {
	cert, roots := certificate(t, "a.example", "b.example")
	start := func(t *testing.T, p policy.Policy) *world {
		w := newWorld(t, p, nil)
		w.name("a.example", public)
		w.serve(public+":443", tlsEcho(cert))
		return w
	}
	p := mustPolicy(t, "restricted", "a.example", public)
	hello := func(conn net.Conn, name string) error {
		secure := tls.Client(conn, &tls.Config{ServerName: name, RootCAs: roots, InsecureSkipVerify: name == ""})
		line, err := bufio.NewReader(secure).ReadString('\n')
		if err == nil && line != "hello\n" {
			err = errors.New("another line: " + line)
		}
		return err
	}
	t.Run("agrees", func(t *testing.T) {
		w := start(t, p)
		conn := w.toName("a.example", 443)
		if err := hello(conn, "a.example"); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if e := w.closed(audit.Connect); e.BytesIn == 0 || e.BytesOut == 0 || e.Host != "a.example" || e.Port != 443 {
			t.Errorf("%+v", e)
		}
	})
	t.Run("in another case", func(t *testing.T) {
		if err := hello(start(t, p).toName("a.example", 443), "A.Example"); err != nil && !strings.Contains(err.Error(), "certificate") {
			t.Fatal(err)
		}
	})
	t.Run("by address, without name", func(t *testing.T) {
		if err := hello(start(t, p).to(public+":443"), ""); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("by address, for an allowed name", func(t *testing.T) {
		if err := hello(start(t, p).to(public+":443"), "a.example"); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("through the proxy", func(t *testing.T) {
		conn, _, status := start(t, p).connectProxy("a.example:443")
		if !strings.Contains(status, "200") {
			t.Fatal(status)
		}
		if err := hello(conn, "a.example"); err != nil {
			t.Fatal(err)
		}
	})
	for name, tt := range map[string]struct {
		conn func(w *world) net.Conn
		sni  string
		rule string
	}{
		"another name":             {func(w *world) net.Conn { return w.toName("a.example", 443) }, "b.example", "sni-mismatch"},
		"a longer name":            {func(w *world) net.Conn { return w.toName("a.example", 443) }, "a.example.b.example", "sni-mismatch"},
		"no name":                  {func(w *world) net.Conn { return w.toName("a.example", 443) }, "", "sni-missing"},
		"by address, another name": {func(w *world) net.Conn { return w.to(public + ":443") }, "b.example", "sni-mismatch"},
		"through the proxy": {func(w *world) net.Conn {
			conn, _, _ := w.connectProxy("a.example:443")
			return conn
		}, "b.example", "sni-mismatch"},
	} {
		t.Run("disagrees: "+name, func(t *testing.T) {
			w := start(t, p)
			var received atomic.Int64
			w.serve(public+":443", func(conn net.Conn) {
				n, _ := io.Copy(io.Discard, conn)
				received.Add(n)
			})
			if err := hello(tt.conn(w), tt.sni); err == nil {
				t.Error("went through")
			}
			w.denied(tt.rule)
			w.engine.Close()
			w.stop() // now the server has read all that it was sent
			if n := received.Load(); n > 0 {
				t.Errorf("%d bytes reached the server", n)
			}
		})
	}
	for name, first := range map[string]string{"HTTP": "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "SSH": "SSH-2.0-x\r\n"} {
		t.Run("not TLS: "+name, func(t *testing.T) {
			w := start(t, p)
			conn := w.toName("a.example", 443)
			io.WriteString(conn, first)
			expectReset(t, conn)
			w.denied("not-tls")
			if _, dials := w.seen(); len(dials) > 0 {
				t.Errorf("dialled %v", dials)
			}
		})
	}
	t.Run("encrypted", func(t *testing.T) {
		for mode, refused := range map[string]bool{"restricted": true, "full": false} {
			w := start(t, mustPolicy(t, mode, "a.example"))
			conn := w.toName("a.example", 443)
			sendSplit(conn, withECH(t))
			if refused {
				expectReset(t, conn)
				w.denied("ech")
				continue
			}
			if _, err := conn.Read(make([]byte, 5)); err != nil {
				t.Errorf("%s: %v", mode, err)
			}
		}
	})
}

// A server that asks for another ClientHello is answered for the same name, or not at all.
func TestTLSRetry(t *testing.T) {
	cert, roots := certificate(t, "a.example")
	start := func() (*world, net.Conn) {
		w := newWorld(t, mustPolicy(t, "restricted", "a.example"), nil)
		w.name("a.example", public)
		w.serve(public+":443", func(conn net.Conn) { // asks, since it knows another curve alone
			secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}, CurvePreferences: []tls.CurveID{tls.CurveP521}})
			echo(secure)
			secure.Close()
		})
		return w, w.toName("a.example", 443)
	}
	config := &tls.Config{ServerName: "a.example", RootCAs: roots, CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP521}}
	_, conn := start()
	secure := tls.Client(conn, config)
	expectLine(t, bufio.NewReader(secure), "hello\n")
	if !secure.ConnectionState().HelloRetryRequest {
		t.Fatal("the server did not ask for another ClientHello")
	}
	w, conn := start()
	// The second ClientHello, changed on its way, names another server.
	secure = tls.Client(&secondHello{Conn: conn, change: func(b []byte) []byte {
		return bytes.ReplaceAll(b, []byte("a.example"), []byte("b.example"))
	}}, config)
	if err := secure.Handshake(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v", err)
	}
	w.denied("sni-mismatch")
}

// secondHello changes what a client writes after its first message.
type secondHello struct {
	net.Conn
	writes int
	change func([]byte) []byte
}

func (c *secondHello) Write(b []byte) (int, error) {
	if c.writes++; c.writes > 1 {
		return c.Conn.Write(c.change(b))
	}
	return c.Conn.Write(b)
}

// withECH is a ClientHello for a.example with an encrypted one inside.
func withECH(t *testing.T) []byte {
	t.Helper()
	// The config list is of a made-up server: what counts is the extension.
	config := &tls.Config{ServerName: "secret.example", MinVersion: tls.VersionTLS13, EncryptedClientHelloConfigList: echConfig(t, "a.example")}
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	go func() {
		tls.Client(client, config).Handshake()
		client.Close()
	}()
	header := make([]byte, 5)
	if _, err := io.ReadFull(server, header); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(header[3])<<8|int(header[4]))
	if _, err := io.ReadFull(server, body); err != nil {
		t.Fatal(err)
	}
	return append(header, body...)
}

// sendSplit sends a byte a segment at first, and the rest in two pieces.
func sendSplit(conn net.Conn, b []byte) {
	for i := range 100 {
		conn.Write(b[i : i+1])
	}
	conn.Write(b[100:200])
	conn.Write(b[200:])
}
