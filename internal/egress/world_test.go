package egress

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"forage"
	"forage/internal/audit"
	"forage/internal/netns"
	"forage/internal/policy"
)

// patience bounds every wait for something that has to happen, on the slowest machine.
const patience = 2 * time.Minute

// world is an engine with a network of its own: names lead to addresses, and
// addresses to servers on loopback.
type world struct {
	t      testing.TB
	engine *Engine
	log    *memoryLog

	mu       sync.Mutex
	hosts    map[string][]netip.Addr
	servers  map[netip.AddrPort]string
	lookups  []string
	dials    []netip.AddrPort
	timedOut bool     // a server that does not answer was waited for to the end
	stops    []func() // of the servers

	forwarded, proxy, dnsStream net.Listener
	dnsPacket                   net.PacketConn
}

// memoryLog is an audit log that can be made to fail.
type memoryLog struct {
	mu     sync.Mutex
	events []audit.Event
	fail   bool
	change chan struct{}
	before func(audit.Event) // an event is recorded; nil is nothing
}

func (l *memoryLog) Record(e audit.Event) error {
	l.mu.Lock()
	before := l.before
	l.mu.Unlock()
	if before != nil {
		before(e)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail {
		return errors.New("disk full")
	}
	l.events = append(l.events, e)
	close(l.change)
	l.change = make(chan struct{})
	return nil
}

func (l *memoryLog) setFailing(fail bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = fail
}

func (l *memoryLog) setBefore(before func(audit.Event)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before = before
}

// wait returns the first event that matches, waiting for it.
func (l *memoryLog) wait(t testing.TB, what string, match func(audit.Event) bool) audit.Event {
	t.Helper()
	deadline := time.After(patience)
	for {
		l.mu.Lock()
		i := slices.IndexFunc(l.events, match)
		if i >= 0 {
			defer l.mu.Unlock()
			return l.events[i]
		}
		change := l.change
		l.mu.Unlock()
		select {
		case <-change:
		case <-deadline:
			t.Fatalf("no event %s in %+v", what, l.all())
		}
	}
}

func (l *memoryLog) all() []audit.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}

// denied waits for a denial by a rule.
func (w *world) denied(rule string) audit.Event {
	w.t.Helper()
	return w.log.wait(w.t, "denied by "+rule, func(e audit.Event) bool { return e.Verdict == "deny" && e.Rule == rule })
}

// closed waits for the closing line of a kind of event.
func (w *world) closed(kind audit.Kind) audit.Event {
	w.t.Helper()
	return w.log.wait(w.t, "closed", func(e audit.Event) bool {
		return e.Kind == kind && e.Verdict == "allow" && e.Reason != ""
	})
}

func mustPolicy(t testing.TB, mode string, allow ...string) policy.Policy {
	t.Helper()
	p, err := policy.Compile(forage.Network{Mode: forage.NetworkMode(mode), Allow: allow})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// newWorld makes a world under a policy; change may change the engine's
// configuration.
func newWorld(t testing.TB, p policy.Policy, change func(*Config)) *world {
	t.Helper()
	w := &world{t: t, log: &memoryLog{change: make(chan struct{})}, hosts: map[string][]netip.Addr{}, servers: map[netip.AddrPort]string{}}
	config := Config{
		Sandbox: "box", Policy: p, Audit: w.log, Lookup: w.lookup, Dial: w.dial,
		HostNetworks: func() ([]netip.Prefix, error) { return nil, nil },
		SniffTimeout: patience,
	}
	if change != nil {
		change(&config)
	}
	var err error
	if w.engine, err = New(config); err != nil {
		t.Fatal(err)
	}
	listen := func() net.Listener {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return listener
	}
	w.forwarded, w.proxy, w.dnsStream = listen(), listen(), listen()
	if w.dnsPacket, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	w.engine.Serve(netns.Listeners{
		Forwarded: []net.Listener{w.forwarded}, Proxy: []net.Listener{w.proxy},
		DNSStream: []net.Listener{w.dnsStream}, DNSPacket: []net.PacketConn{w.dnsPacket},
	})
	t.Cleanup(w.stop)
	return w
}

// stop ends the engine and then the servers, and waits for all of them.
func (w *world) stop() {
	if err := w.engine.Close(); err != nil {
		w.t.Errorf("closing the engine: %v", err)
	}
	w.mu.Lock()
	stops := w.stops
	w.stops = nil
	w.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%s: not so\n%s", what, stacks[:runtime.Stack(stacks, true)])
		}
		runtime.Gosched()
	}
}

func (w *world) lookup(_ context.Context, name string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups = append(w.lookups, name)
	if addrs, ok := w.hosts[name]; ok {
		return addrs, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func (w *world) dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.dials = append(w.dials, addr)
	server, ok := w.servers[addr]
	w.mu.Unlock()
	if !ok {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	if server == "" { // a server that does not answer
		<-ctx.Done()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.timedOut = w.timedOut || errors.Is(ctx.Err(), context.DeadlineExceeded)
		return nil, ctx.Err()
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", server)
}

func (w *world) seen() (lookups []string, dials []netip.AddrPort) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lookups), slices.Clone(w.dials)
}

// name makes a name lead to addresses.
func (w *world) name(host string, addrs ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[host] = nil
	for _, addr := range addrs {
		w.hosts[host] = append(w.hosts[host], netip.MustParseAddr(addr))
	}
}

// serve puts a server at an address; each connection is given to handle.
func (w *world) serve(addr string, handle func(net.Conn)) string {
	w.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(patience))
				handle(conn)
			})
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stops = append(w.stops, func() { listener.Close(); running.Wait() })
	w.servers[netip.MustParseAddrPort(addr)] = listener.Addr().String()
	return listener.Addr().String()
}

// echo answers with what it gets, after a greeting.
func echo(conn net.Conn) {
	io.WriteString(conn, "hello\n")
	io.Copy(conn, conn)
}

func (w *world) connect(listener net.Listener) net.Conn {
	w.t.Helper()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(patience))
	w.t.Cleanup(func() { conn.Close() })
	return conn
}

// to connects to an address, as something inside does.
func (w *world) to(addr string) net.Conn {
	w.t.Helper()
	dst := netip.MustParseAddrPort(addr)
	conn := w.connect(w.forwarded)
	header := []byte("\r\n\r\n\x00\r\nQUIT\n\x21")
	if dst.Addr().Is4() {
		header = append(header, 0x11, 0, 12, 127, 0, 0, 1)
		header = append(header, dst.Addr().AsSlice()...)
	} else {
		header = append(header, 0x21, 0, 36)
		header = append(append(header, make([]byte, 16)...), dst.Addr().AsSlice()...)
	}
	header = binary.BigEndian.AppendUint16(append(header, 0x10, 0), dst.Port())
	if _, err := conn.Write(header); err != nil {
		w.t.Fatal(err)
	}
	return conn
}

// toName asks for a name and connects to what it is told.
func (w *world) toName(host string, port uint16) net.Conn {
	w.t.Helper()
	answer := w.ask(host, dnsmessage.TypeA)
	if len(answer.Answers) != 1 {
		w.t.Fatalf("no address for %s: %v", host, answer.RCode)
	}
	addr := netip.AddrFrom4(answer.Answers[0].Body.(*dnsmessage.AResource).A)
	return w.to(netip.AddrPortFrom(addr, port).String())
}

// ask asks a question over UDP.
func (w *world) ask(name string, qtype dnsmessage.Type) dnsmessage.Message {
	w.t.Helper()
	conn, err := net.Dial("udp", w.dnsPacket.LocalAddr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	q := dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{
		{Name: dnsmessage.MustNewName(name + "."), Type: qtype, Class: dnsmessage.ClassINET},
	}}
	packed, err := q.Pack()
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := conn.Write(packed); err != nil {
		w.t.Fatal(err)
	}
	buf := make([]byte, 1024)
	n, err := conn.Read(buf)
	if err != nil {
		w.t.Fatal(err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(buf[:n]); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// expectReset reads until the connection is reset; nothing may arrive before.
func expectReset(t testing.TB, conn net.Conn) {
	t.Helper()
	got, err := io.ReadAll(conn)
	if !errors.Is(err, syscall.ECONNRESET) || len(got) > 0 {
		t.Errorf("got %q and %v, want a reset", got, err)
	}
}

func expectLine(t testing.TB, r *bufio.Reader, want string) {
	t.Helper()
	if got, err := r.ReadString('\n'); got != want || err != nil {
		t.Fatalf("got %q, %v, want %q", got, err, want)
	}
}

// certificate is for a name, self-signed.
func certificate(t testing.TB, names ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: names, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// tlsEcho serves echo over TLS.
func tlsEcho(cert tls.Certificate) func(net.Conn) {
	return func(conn net.Conn) {
		secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}})
		echo(secure)
		secure.Close()
	}
}

// connectProxy asks the explicit proxy for a tunnel and returns its status line.
func (w *world) connectProxy(authority string) (net.Conn, *bufio.Reader, string) {
	w.t.Helper()
	conn := w.connect(w.proxy)
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority)
	r := bufio.NewReader(conn)
	status, err := r.ReadString('\n')
	if err != nil {
		w.t.Fatalf("CONNECT %s: %v", authority, err)
	}
	for line := status; strings.TrimSpace(line) != ""; {
		if line, err = r.ReadString('\n'); err != nil {
			w.t.Fatal(err)
		}
	}
	return conn, r, strings.TrimSpace(status)
}
