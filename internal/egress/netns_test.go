package egress

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"forage/internal/audit"
	"forage/internal/netns"
)

// insideVar makes the test binary what runs inside a network namespace.
const insideVar = "FORAGE_EGRESS_INSIDE"

func TestMain(m *testing.M) {
	if os.Getenv(insideVar) != "" {
		if err := runInside(); err != nil {
			fmt.Fprintln(os.Stderr, "inside:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const rules = `
table inet forage {
	chain output {
		type nat hook output priority -100;
		meta l4proto { tcp, udp } th dport 53 redirect to :53
		ip daddr 127.0.0.0/8 return
		ip6 daddr ::1 return
		meta l4proto tcp redirect to :15001
	}
}`

// runInside sets up the namespace that it is alone in, hands its listening
// sockets out and then does what it is told.
func runInside() error {
	if err := setUpInside(); err != nil {
		return err
	}
	out, err := net.FileConn(os.NewFile(3, "control"))
	if err != nil {
		return err
	}
	control := out.(*net.UnixConn)
	var fds []int
	for _, host := range []string{"127.0.0.1", "::1"} {
		for _, port := range []string{"15001", "18080", "53"} {
			listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
			if err != nil {
				return err
			}
			file, err := listener.(*net.TCPListener).File()
			if err != nil {
				return err
			}
			fds = append(fds, int(file.Fd()))
		}
		packet, err := net.ListenPacket("udp", net.JoinHostPort(host, "53"))
		if err != nil {
			return err
		}
		file, err := packet.(*net.UDPConn).File()
		if err != nil {
			return err
		}
		fds = append(fds, int(file.Fd()))
	}
	if _, _, err := control.WriteMsgUnix([]byte("\n"), unix.UnixRights(fds...), nil); err != nil {
		return err
	}
	orders, replies := json.NewDecoder(control), json.NewEncoder(control)
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			return nil // told to end
		}
		if err := replies.Encode(o.carryOut()); err != nil {
			return err
		}
	}
}

func setUpInside() error {
	for _, args := range [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "route", "add", "local", "0.0.0.0/0", "dev", "lo"},
		{"ip", "-6", "route", "add", "local", "::/0", "dev", "lo"},
		{"nft", "-f", "-"},
	} {
		command := exec.Command(args[0], args[1:]...)
		command.Stdin = strings.NewReader(rules)
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", args, err, out)
		}
	}
	return nil
}

// order is something to do inside; result is what came of it.
type order struct {
	Network, Addr string
	Send          []byte // what to say first
	Name          string // of a TLS server; Send then goes inside
	Until         int    // bytes to wait for; 0 is until the end
}

type result struct {
	Got   []byte
	Error string
}

func (o order) carryOut() result {
	conn, err := net.DialTimeout(o.Network, o.Addr, patience)
	if err != nil {
		return result{Error: err.Error()}
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	if o.Name != "" {
		conn = tls.Client(conn, &tls.Config{ServerName: o.Name, InsecureSkipVerify: true})
	}
	if len(o.Send) > 0 { // an empty write would take a reset's error with it
		if _, err := conn.Write(o.Send); err != nil {
			return result{Error: err.Error()}
		}
	}
	got := make([]byte, 4096)
	n := 0
	for err == nil && (o.Until == 0 || n < o.Until) && n < len(got) {
		var k int
		k, err = conn.Read(got[n:])
		n += k
	}
	r := result{Got: got[:n]}
	if err != nil && err != io.EOF {
		r.Error = err.Error()
	}
	return r
}

// inside is a process in a network namespace of its own.
type inside struct {
	t       *testing.T
	orders  *json.Encoder
	results *json.Decoder
}

// startInside starts one, as its own user namespace's root, and returns its listeners.
func startInside(t *testing.T) (*inside, netns.Listeners) {
	t.Helper()
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	ours := os.NewFile(uintptr(pair[0]), "control")
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), insideVar+"=1")
	command.Stderr = os.Stderr
	command.ExtraFiles = []*os.File{theirs}
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	if err := command.Start(); err != nil {
		t.Skipf("no namespaces here: %v", err)
	}
	theirs.Close()
	t.Cleanup(func() { conn.Close(); command.Wait() })
	return &inside{t, json.NewEncoder(conn), json.NewDecoder(conn)}, receiveListeners(t, conn.(*net.UnixConn))
}

func receiveListeners(t *testing.T, conn *net.UnixConn) (l netns.Listeners) {
	t.Helper()
	data, oob := make([]byte, 1), make([]byte, 512)
	_, n, _, _, err := conn.ReadMsgUnix(data, oob)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		t.Fatalf("no sockets came out: %v", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 8 {
		t.Fatalf("%d sockets came out: %v", len(fds), err)
	}
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "socket")
		if i%4 == 3 {
			packet, err := net.FilePacketConn(file)
			if err != nil {
				t.Fatal(err)
			}
			l.DNSPacket = append(l.DNSPacket, packet)
		} else {
			listener, err := net.FileListener(file)
			if err != nil {
				t.Fatal(err)
			}
			kind := []*[]net.Listener{&l.Transparent, &l.Proxy, &l.DNSStream}[i%4]
			*kind = append(*kind, listener)
		}
		file.Close()
	}
	return l
}

func (in *inside) do(o order) result {
	in.t.Helper()
	var r result
	if err := errors.Join(in.orders.Encode(o), in.results.Decode(&r)); err != nil {
		in.t.Fatal(err)
	}
	return r
}

func question(t *testing.T, name string, qtype dnsmessage.Type) []byte {
	t.Helper()
	m := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name + "."), Type: qtype, Class: dnsmessage.ClassINET}}}
	packed, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// resolve asks a resolver for a name, from inside.
func (in *inside) resolve(network, resolver, name string, qtype dnsmessage.Type) netip.Addr {
	in.t.Helper()
	q := question(in.t, name, qtype)
	if network == "tcp" {
		q = append([]byte{0, byte(len(q))}, q...)
	}
	r := in.do(order{Network: network, Addr: resolver, Send: q, Until: 20})
	if network == "tcp" && len(r.Got) > 2 {
		r.Got = r.Got[2:]
	}
	var m dnsmessage.Message
	if err := m.Unpack(r.Got); err != nil {
		in.t.Fatalf("asking %s over %s: %v, %s", resolver, network, err, r.Error)
	}
	for _, answer := range m.Answers {
		switch body := answer.Body.(type) {
		case *dnsmessage.AResource:
			return netip.AddrFrom4(body.A)
		case *dnsmessage.AAAAResource:
			return netip.AddrFrom16(body.AAAA)
		}
	}
	return netip.Addr{}
}

// The real thing: a network namespace of an ordinary user, the kernel's own
// redirect, and its word for where a connection was meant to go.
func TestNamespace(t *testing.T) {
	in, listeners := startInside(t)
	cert, _ := certificate(t, "a.example")
	w := newWorld(t, mustPolicy(t, "restricted", "a.example", "git.example:22", "93.184.216.99:7"), nil)
	w.engine.Serve(listeners)
	w.name("a.example", public)
	w.name("git.example", "2606:4700::1")
	w.serve(public+":443", tlsEcho(cert))
	w.serve("[2606:4700::1]:22", echo)
	w.serve("93.184.216.99:7", echo)
	w.serveHTTP(public+":80", &site{})

	// Any resolver that is asked is ours.
	var a4, a6, git netip.Addr
	for _, network := range []string{"udp", "tcp"} {
		for _, resolver := range []string{"127.0.0.1:53", "[::1]:53", "8.8.8.8:53", "[2001:4860:4860::8888]:53"} {
			a4 = in.resolve(network, resolver, "a.example", dnsmessage.TypeA)
			a6 = in.resolve(network, resolver, "a.example", dnsmessage.TypeAAAA)
			git = in.resolve(network, resolver, "git.example", dnsmessage.TypeAAAA)
			if a4.String() != "198.18.0.1" || a6.String() != "2001:2::1" || git.String() != "2001:2::2" {
				t.Fatalf("%s at %s: %v, %v, %v", network, resolver, a4, a6, git)
			}
			if denied := in.resolve(network, resolver, "data.evil.example", dnsmessage.TypeA); denied.IsValid() {
				t.Errorf("%s at %s: %v", network, resolver, denied)
			}
		}
	}
	get := []byte("GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
	for _, addr := range []netip.Addr{a4, a6} {
		at := func(port uint16) string { return netip.AddrPortFrom(addr, port).String() }
		if r := in.do(order{Network: "tcp", Addr: at(80), Send: get}); !strings.Contains(string(r.Got), "GET a.example /x") {
			t.Errorf("HTTP at %v: %q, %s", addr, r.Got, r.Error)
		}
		if r := in.do(order{Network: "tcp", Addr: at(443), Name: "a.example", Send: []byte("ping\n"), Until: 11}); string(r.Got) != "hello\nping\n" {
			t.Errorf("TLS at %v: %q, %s", addr, r.Got, r.Error)
		}
		if r := in.do(order{Network: "tcp", Addr: at(443), Name: "b.example", Send: []byte("ping\n")}); !strings.Contains(r.Error, "reset") {
			t.Errorf("TLS with another name at %v: %q, %s", addr, r.Got, r.Error)
		}
	}
	if r := in.do(order{Network: "tcp", Addr: netip.AddrPortFrom(git, 22).String(), Until: 6}); string(r.Got) != "hello\n" {
		t.Errorf("%q, %s", r.Got, r.Error)
	}
	if r := in.do(order{Network: "tcp", Addr: "93.184.216.99:7", Until: 6}); string(r.Got) != "hello\n" {
		t.Errorf("%q, %s", r.Got, r.Error)
	}
	if r := in.do(order{Network: "tcp", Addr: "127.0.0.1:18080", Send: []byte("CONNECT git.example:22 HTTP/1.1\r\n\r\n"), Until: 45}); !strings.HasSuffix(string(r.Got), "\r\n\r\nhello\n") {
		t.Errorf("%q, %s", r.Got, r.Error)
	}
	for addr, rule := range map[string]string{
		"127.0.0.1:15001": "", "[::1]:15001": "", // nobody is redirected to where it is already
		"8.8.8.8:443": "default-deny", "[2606:4700::1]:22": "default-deny", "10.0.0.1:80": "private-address",
		"169.254.169.254:80": "private-address", "[fd00::1]:80": "private-address", "198.18.0.9:80": "unknown-address", "[2001:2::9]:80": "unknown-address",
		"198.18.0.1:15001": "default-deny", "198.18.0.2:25": "default-deny",
	} {
		if addr == "198.18.0.1:15001" { // a.example is allowed on any port
			rule = ""
		}
		r := in.do(order{Network: "tcp", Addr: addr})
		if len(r.Got) > 0 || !strings.Contains(r.Error, "reset") {
			t.Errorf("%s: %q, %s", addr, r.Got, r.Error)
		}
		if rule != "" {
			w.denied(rule)
		}
	}
	w.log.wait(t, "for the listener itself", func(e audit.Event) bool {
		return e.Verdict == "deny" && (e.Rule == "own-listener" || e.Rule == "no-destination")
	})
	for _, addr := range dialledOf(w) {
		if policyClass := addr.Addr(); policyClass.IsLoopback() || policyClass.IsPrivate() || policyClass.IsLinkLocalUnicast() {
			t.Errorf("dialled %v", addr)
		}
	}
}

func dialledOf(w *world) []netip.AddrPort {
	_, dials := w.seen()
	return dials
}
