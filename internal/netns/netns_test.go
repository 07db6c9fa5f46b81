package netns

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"forage/internal/control"

	"golang.org/x/sys/unix"
)

// The tests run this binary again in a user and a network namespace of its own
// (roleEnv says as what), and serve its sockets from outside, as the host does.
const roleEnv = "FORAGE_NETNS_TEST"

// spawn starts the named test inside fresh namespaces, with a control channel
// as descriptor 3.
func spawn(t *testing.T, test string, flags uintptr) (*exec.Cmd, *control.Conn) {
	t.Helper()
	host, guest, err := control.Pair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := control.New(host, control.FromGuest())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+test+"$", "-test.v", "-test.timeout=10m")
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
func inside(t *testing.T) *control.Conn {
	t.Helper()
	if os.Getenv(roleEnv) != t.Name() {
		t.Skip("runs in a namespace only, started by TestNamespace")
	}
	conn, err := control.New(os.NewFile(3, "control"), control.FromHost())
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
	if err := conn.Send(control.Frame{Kind: control.Go}); err != nil {
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
	cmd := exec.Command(path, "-test.run=^(TestNamespace|TestLacking)$", "-test.v")
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
	if err := conn.Send(control.Frame{Kind: control.Listeners, Body: body}, n.Files()...); err != nil {
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

// What a kernel lacks must be missing altogether, and be said.
func TestLacking(t *testing.T) {
	if os.Getenv(roleEnv) != "" {
		t.Skip("this is the inside")
	}
	for test, flags := range map[string]uintptr{
		"TestInsideWithoutRules":     syscall.CLONE_NEWNET,
		"TestInsideWithoutIPv6":      syscall.CLONE_NEWNET,
		"TestInsideWithoutIPv6Route": syscall.CLONE_NEWNET,
		"TestInsideRefused":          0, // no namespace, so no privilege over the one we are in
	} {
		cmd, _ := spawn(t, test, flags)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", test, err)
		}
	}
}

func errno(err error) unix.Errno {
	var e unix.Errno
	errors.As(err, &e)
	return e
}

// lacking sets up with some steps replaced and checks what remains.
func lacking(t *testing.T, do steps, want Report, sockets int) {
	t.Helper()
	inside(t)
	n, err := setup(do)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if n.Report.Redirected != want.Redirected || n.Report.IPv6 != want.IPv6 || len(n.Report.Notes) != 1 || len(n.Files()) != sockets {
		t.Errorf("%d sockets, %+v", len(n.Files()), n.Report)
	}
	for address, works := range map[string]bool{
		"127.0.0.1:18080": true, "127.0.0.1:53": true, "8.8.8.8:443": want.Redirected, "[2001:db8::1]:443": want.IPv6 && want.Redirected,
	} {
		c, err := net.DialTimeout("tcp", address, patience)
		if err == nil {
			c.Close()
		}
		if (err == nil) != works || (err != nil && errno(err) != unix.ENETUNREACH) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestInsideWithoutRules(t *testing.T) {
	lacking(t, steps{hasLoopback6, func() error { return unix.EOPNOTSUPP }, addLocalRoute}, Report{IPv6: true}, 6)
}

func TestInsideWithoutIPv6(t *testing.T) {
	rules := func() error { return loadRules(TransparentPort) }
	lacking(t, steps{func() bool { return false }, rules, addLocalRoute}, Report{Redirected: true}, 4)
}

func TestInsideWithoutIPv6Route(t *testing.T) {
	rules := func() error { return loadRules(TransparentPort) }
	route := func(family byte) error {
		if family == unix.AF_INET6 {
			return unix.EOPNOTSUPP
		}
		return addLocalRoute(family)
	}
	lacking(t, steps{hasLoopback6, rules, route}, Report{Redirected: true}, 4)
}

func TestInsideRefused(t *testing.T) {
	inside(t)
	if err := loadRules(TransparentPort); err == nil {
		t.Error("the rules were loaded into a namespace that is not ours")
	}
	if _, err := Setup(); err == nil {
		t.Error("set up a namespace that is not ours")
	}
}
