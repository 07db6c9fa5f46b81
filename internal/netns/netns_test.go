package netns

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"forage/internal/frames"

	"golang.org/x/sys/unix"
)

// The tests run this binary again in a user and a network namespace of its own
// (roleEnv says as what), and serve its sockets from outside, as the host does.
const roleEnv = "FORAGE_NETNS_TEST"

// spawn starts the named test inside fresh namespaces, with a control channel
// as descriptor 3.
func spawn(t *testing.T, test string, flags uintptr) (*exec.Cmd, *frames.Conn) {
	t.Helper()
	host, guest, err := frames.Pair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := frames.New(host, frames.FromGuest())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+test+"$", "-test.v", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), roleEnv+"="+test)
	cmd.ExtraFiles = []*os.File{guest}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | flags,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: unprivileged(os.Getuid()), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: unprivileged(os.Getgid()), Size: 1}},
		Credential:  &syscall.Credential{Uid: 1000, Gid: 1000, NoSetGroups: true},
		AmbientCaps: []uintptr{unix.CAP_NET_ADMIN},
		Pdeathsig:   syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	guest.Close()
	return cmd, conn
}

// unprivileged is who an identity is on the host: never the real root, who
// would own the files below /proc/sys/net in a namespace that maps no root.
func unprivileged(id int) int {
	if id == 0 {
		return 65534
	}
	return id
}

// inside returns the control channel when this process is the one that spawn
// started for this test, and skips otherwise.
func inside(t *testing.T) *frames.Conn {
	t.Helper()
	if os.Getenv(roleEnv) != t.Name() {
		t.Skip("runs in a namespace only, started by TestNamespace")
	}
	conn, err := frames.New(os.NewFile(3, "control"), frames.FromHost())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestNamespace(t *testing.T) {
	if os.Getenv(roleEnv) != "" {
		t.Skip("this is the inside")
	}
	cmd, conn := spawn(t, "TestInside", syscall.CLONE_NEWNET)
	f, files, err := conn.Receive()
	if err != nil {
		t.Fatal(err)
	}
	var report Report
	if err := f.Decode(&report); err != nil {
		t.Fatal(err)
	}
	if !report.Redirected || !report.IPv6 || len(report.Notes) > 0 {
		t.Fatalf("this kernel can do all of it, but: %+v", report)
	}
	l, err := FromFiles(report, files)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	serve(l)
	if err := conn.Send(frames.Frame{Kind: frames.Go}); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("inside: %v", err)
	}
}

// An ordinary user must get the same.
func TestNamespaceAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 || os.Getenv(roleEnv) != "" {
		t.Skip("TestNamespace already runs as an ordinary user")
	}
	dir, err := os.MkdirTemp("", "netns-test")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o755)
	binary, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "test")
	if err := os.WriteFile(path, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-test.run=^(TestNamespace|TestWithoutNftables)$", "-test.v")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestNamespace ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// serve answers on every listener: which one it is, and where the client wanted to go.
func serve(l Listeners) {
	answer := func(ln net.Listener, what string) {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				fmt.Fprintf(c, "%s %v", what, originalDst(c.(*net.TCPConn)))
			}()
		}
	}
	for _, ln := range l.Transparent {
		go answer(ln, "transparent")
	}
	for _, ln := range l.Proxy {
		go answer(ln, "proxy")
	}
	for _, ln := range l.DNSStream {
		go answer(ln, "dns")
	}
	for _, pc := range l.DNSPacket {
		go func() {
			b := make([]byte, 512)
			for {
				n, from, err := pc.ReadFrom(b)
				if err != nil {
					return
				}
				pc.WriteTo(append([]byte("dns "), b[:n]...), from)
			}
		}()
	}
}

// originalDst asks the kernel where the client connected to.
func originalDst(c *net.TCPConn) (dst netip.AddrPort) {
	local := c.LocalAddr().(*net.TCPAddr)
	raw, _ := c.SyscallConn()
	raw.Control(func(fd uintptr) {
		if local.IP.To4() == nil {
			a, err := unix.GetsockoptIPv6MTUInfo(int(fd), unix.IPPROTO_IPV6, 80) // IP6T_SO_ORIGINAL_DST
			if err == nil {
				dst = netip.AddrPortFrom(netip.AddrFrom16(a.Addr.Addr), swap(a.Addr.Port))
			}
			return
		}
		a, err := unix.GetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IP, unix.SO_ORIGINAL_DST)
		if err == nil {
			b := a.Multiaddr
			dst = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), uint16(b[2])<<8|uint16(b[3]))
		}
	})
	return dst
}

func swap(port uint16) uint16 { return port<<8 | port>>8 }

func TestInside(t *testing.T) {
	conn := inside(t)
	n, err := Setup()
	if err != nil {
		t.Fatal(err)
	}
	body, _ := json.Marshal(n.Report)
	if err := conn.Send(frames.Frame{Kind: frames.Listeners, Body: body}, n.Files()...); err != nil {
		t.Fatal(err)
	}
	n.Close()
	if _, _, err := conn.Receive(); err != nil {
		t.Fatal(err)
	}
	// What is started from this thread has no capability, as the agent has none.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestAgent$", "-test.v")
	cmd.Env = append(os.Environ(), roleEnv+"=TestAgent")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
}

// TestAgent is what runs in a finished namespace, with no privilege.
func TestAgent(t *testing.T) {
	if os.Getenv(roleEnv) != t.Name() {
		t.Skip("runs in a namespace only, started by TestInside")
	}
	t.Run("TCP", insideTCP)
	t.Run("loopback", insideLoopback)
	t.Run("DNS", insideDNS)
	t.Run("UDP", insideUDP)
	t.Run("undo", insideUndo)
	t.Run("many connections to one address", insideMany)
}

func get(network, address string) (string, error) {
	c, err := net.DialTimeout(network, address, 10*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	b, err := io.ReadAll(c)
	return string(b), err
}

func insideTCP(t *testing.T) {
	for _, tc := range []struct{ address, want string }{
		{"198.18.0.1:443", "transparent 198.18.0.1:443"},
		{"8.8.8.8:80", "transparent 8.8.8.8:80"},
		{"10.0.0.1:22", "transparent 10.0.0.1:22"},
		{"169.254.169.254:80", "transparent 169.254.169.254:80"},
		{"192.168.1.1:61080", "transparent 192.168.1.1:61080"},
		{"[2001:db8::5]:443", "transparent [2001:db8::5]:443"},
		{"[fd00::1]:1", "transparent [fd00::1]:1"},
		{"[::ffff:9.9.9.9]:443", "transparent 9.9.9.9:443"},
		{"9.9.9.9:53", "dns 9.9.9.9:53"},
		{"[2001:db8::53]:53", "dns [2001:db8::53]:53"},
		{"127.0.0.1:53", "dns 127.0.0.1:53"},
		{"127.0.0.1:18080", "proxy 127.0.0.1:18080"},
		{"[::1]:18080", "proxy [::1]:18080"},
		// Somebody who connects to our own listener is recognisable by the address.
		{"127.0.0.1:61080", "transparent 127.0.0.1:61080"},
	} {
		got, err := get("tcp", tc.address)
		// For what was not redirected the kernel has no other destination, or the same.
		got = strings.Replace(got, " invalid AddrPort", " "+tc.address, 1)
		if err != nil || got != tc.want {
			t.Errorf("%s: got %q, %v", tc.address, got, err)
		}
	}
}

func insideLoopback(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "127.4.5.6:0", "[::1]:0", "127.0.0.1:80"} {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		go serve(Listeners{Proxy: []net.Listener{ln}})
		if got, err := get("tcp", ln.Addr().String()); err != nil || !strings.HasPrefix(got, "proxy") {
			t.Errorf("%s: got %q, %v", address, got, err)
		}
		ln.Close()
		if _, err := get("tcp", ln.Addr().String()); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%s without a server: %v", address, err)
		}
	}
	a, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := net.Dial("udp", a.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.Write([]byte("x"))
	a.SetDeadline(time.Now().Add(5 * time.Second))
	if n, _, err := a.ReadFrom(make([]byte, 9)); n != 1 || err != nil {
		t.Errorf("UDP over loopback: %v", err)
	}
}

func insideDNS(t *testing.T) {
	for _, address := range []string{"127.0.0.1:53", "[::1]:53", "8.8.8.8:53", "10.0.0.2:53", "[2001:db8::53]:53", "127.0.0.53:53"} {
		c, err := net.Dial("udp", address)
		if err != nil {
			t.Error(err)
			continue
		}
		c.SetDeadline(time.Now().Add(5 * time.Second))
		b := make([]byte, 100)
		c.Write([]byte("query"))
		n, err := c.Read(b)
		if address == "127.0.0.53:53" { // loopback is not ours to redirect
			if err == nil || !strings.Contains(err.Error(), "refused") {
				t.Errorf("%s: %q, %v", address, b[:n], err)
			}
		} else if err != nil || string(b[:n]) != "dns query" {
			t.Errorf("%s: got %q, %v", address, b[:n], err)
		}
		c.Close()
	}
}

func insideUDP(t *testing.T) {
	for _, address := range []string{"8.8.8.8:443", "198.18.0.1:443", "10.0.0.1:123", "192.168.0.1:5353", "[2001:db8::1]:443"} {
		c, err := net.Dial("udp", address)
		if err != nil {
			t.Error(err)
			continue
		}
		begin := time.Now()
		c.SetDeadline(begin.Add(5 * time.Second))
		c.Write([]byte("quic"))
		if _, err := c.Read(make([]byte, 9)); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%s: %v", address, err)
		}
		if d := time.Since(begin); d > time.Second {
			t.Errorf("%s: refused after %v", address, d)
		}
		c.Close()
	}
	// Not even between two processes inside: an address that isn't loopback is
	// somebody else's.
	ln, err := net.ListenPacket("udp", "10.1.1.1:999")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("udp", "10.1.1.1:999")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("x"))
	c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("UDP to an address that the agent took: %v", err)
	}
}

func insideUndo(t *testing.T) {
	for _, s := range append(earlySysctls, conntrackSysctls...) {
		if err := writeSysctl("/proc/sys/net/"+s.path, s.value); err == nil {
			t.Errorf("%s can be written", s.path)
		}
	}
	for name, undo := range map[string]func() error{
		"lo up":      loopbackUp,
		"routes":     func() error { return addLocalRoutes(true) },
		"rules":      func() error { return loadRules(1) },
		"rules gone": deleteTable,
		"raw":        func() error { return openSocket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW) },
		"raw ICMP":   func() error { return openSocket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6) },
		"packet":     func() error { return openSocket(unix.AF_PACKET, unix.SOCK_RAW, 0) },
		"ping":       func() error { return openSocket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP) },
		"our port":   func() error { return listenOn("127.0.0.1:53") },
		"tun": func() error {
			f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			var ifr [40]byte
			copy(ifr[:], "t0")
			ifr[16] = unix.IFF_TUN
			_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.TUNSETIFF, ptr(&ifr))
			if errno != 0 {
				return errno
			}
			return nil
		},
	} {
		if err := undo(); err == nil {
			t.Errorf("%s: done", name)
		}
	}
	links, err := net.Interfaces()
	if err != nil || len(links) != 1 || links[0].Name != "lo" {
		t.Errorf("there is more than lo: %v, %v", links, err)
	}
}

func openSocket(family, kind, protocol int) error {
	fd, err := unix.Socket(family, kind, protocol)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func listenOn(address string) error {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		})
	}}
	ln, err := config.Listen(context.Background(), "tcp", address)
	if err == nil {
		ln.Close()
	}
	return err
}

func deleteTable() error {
	r := ruleset{}
	r.transaction(unix.NFNL_MSG_BATCH_BEGIN)
	r.message(unix.NFT_MSG_DELTABLE, 0, func() { r.str(unix.NFTA_TABLE_NAME, tableName) })
	r.transaction(unix.NFNL_MSG_BATCH_END)
	return r.send(unix.NETLINK_NETFILTER, r.acks)
}

// The default range of ports would be used up at 28,000.
func insideMany(t *testing.T) {
	for i := range 30_000 {
		if _, err := get("tcp", "198.18.0.7:443"); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
}

func TestWithoutNftables(t *testing.T) {
	if os.Getenv(roleEnv) != "" {
		t.Skip("this is the inside")
	}
	// No new network namespace, so no privilege over the one we are in: what a
	// kernel that refuses looks like.
	cmd, _ := spawn(t, "TestInsideRefused", 0)
	if err := cmd.Wait(); err != nil {
		t.Errorf("inside: %v", err)
	}
}

func TestInsideRefused(t *testing.T) {
	inside(t)
	if err := redirect(true); err == nil {
		t.Error("the rules were loaded into a namespace that is not ours")
	}
	if _, err := Setup(); err == nil {
		t.Error("set up a namespace that is not ours")
	}
}

func TestFromFilesBelievesNothing(t *testing.T) {
	report := Report{}
	tcp := func(address string) *os.File {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		f, err := ln.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	null := func() *os.File {
		f, err := os.Open("/dev/null")
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, tc := range []struct {
		name  string
		files []*os.File
	}{
		{"none", nil},
		{"not sockets", []*os.File{null(), null(), null()}},
		{"another port", []*os.File{tcp("127.0.0.1:0"), tcp("127.0.0.1:0"), null()}},
		{"too many", []*os.File{null(), null(), null(), null()}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := FromFiles(report, tc.files); err == nil {
				t.Error("taken over")
			}
			for i, f := range tc.files {
				if f.Close() == nil {
					t.Errorf("file %d was left open", i)
				}
			}
		})
	}
}

func TestOrder(t *testing.T) {
	var got []string
	for _, e := range endpoints(Report{Redirected: true, IPv6: true}) {
		got = append(got, e.String())
	}
	want := "tcp 127.0.0.1:61080, tcp [::1]:61080, tcp 127.0.0.1:18080, tcp [::1]:18080, " +
		"tcp 127.0.0.1:53, tcp [::1]:53, udp 127.0.0.1:53, udp [::1]:53"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %v", got)
	}
	if n := len(endpoints(Report{})); n != 3 {
		t.Errorf("%d sockets where there is only the proxy and the resolver", n)
	}
}
