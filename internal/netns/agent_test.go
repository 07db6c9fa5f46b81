package netns

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

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

// patience bounds every wait for something that has to happen.
const patience = time.Minute

func get(network, address string) (string, error) {
	c, err := net.DialTimeout(network, address, patience)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
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
		// A connection to our own listener is recognisable by the address.
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
	a.SetDeadline(time.Now().Add(patience))
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
		c.SetDeadline(time.Now().Add(patience))
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
		if err := unanswered(c); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%s: %v", address, err)
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
	if err := unanswered(c); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("UDP to an address that the agent took: %v", err)
	}
}

// unanswered sends until there is an answer or a refusal, and returns that: the kernel leaves
// refusals out where the machine has sent many (net.ipv4.icmp_msgs_per_sec). What is dropped is a
// timeout in the end.
func unanswered(c net.Conn) error {
	for end := time.Now().Add(patience); ; {
		if _, err := c.Write([]byte("quic")); err != nil { // a refusal of what was sent before
			return err
		}
		c.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := c.Read(make([]byte, 9)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Now().After(end) {
			return err
		}
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
		"routes":     func() error { return addLocalRoute(unix.AF_INET) },
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
			_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.TUNSETIFF, uintptr(unsafe.Pointer(&ifr)))
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

// Two thousand connections to one address, each closed by the client, which
// then has to remember its port for a minute.
func insideMany(t *testing.T) {
	for path, want := range map[string]string{
		"ipv4/tcp_tw_reuse": "1", "ipv4/ip_local_port_range": "1024 65535", "core/somaxconn": "65535",
		"netfilter/nf_conntrack_tcp_timeout_time_wait": "10", "ipv6/conf/lo/disable_ipv6": "0",
	} {
		b, err := os.ReadFile("/proc/sys/net/" + path)
		if got := strings.Join(strings.Fields(string(b)), " "); err != nil || got != want {
			t.Errorf("%s is %q, want %q; %v", path, got, want, err)
		}
	}
	for i := range 2000 {
		c, err := net.Dial("tcp", "198.18.0.7:443")
		if err == nil {
			_, err = c.Read(make([]byte, 11)) // "transparent": not all of it
			c.Close()
		}
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
}
