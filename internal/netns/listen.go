package netns

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// backlog of every listening socket; the kernel cuts it to net.core.somaxconn.
const backlog = 65535

// endpoint is one of our listening sockets on a loopback address.
type endpoint struct {
	kind int // SOCK_STREAM or SOCK_DGRAM
	port int
	ipv6 bool
}

// endpoints are the sockets of a namespace, in the documented order.
func endpoints(r Report) []endpoint {
	var list []endpoint
	add := func(kind, port int) {
		list = append(list, endpoint{kind, port, false})
		if r.IPv6 {
			list = append(list, endpoint{kind, port, true})
		}
	}
	if r.Redirected {
		add(unix.SOCK_STREAM, TransparentPort)
	}
	add(unix.SOCK_STREAM, ProxyPort)
	add(unix.SOCK_STREAM, DNSPort)
	add(unix.SOCK_DGRAM, DNSPort)
	return list
}

// listen makes the sockets. They are bound to 127.0.0.1 and ::1, not to the
// wildcard: with every address local, an answer to redirected UDP would
// otherwise leave with the wrong source.
func listen(r Report) ([]*os.File, error) {
	var files []*os.File
	for _, e := range endpoints(r) {
		f, err := e.listen()
		if err != nil {
			Network{sockets: files}.Close()
			return nil, fmt.Errorf("listening on %s: %w", e, err)
		}
		files = append(files, f)
	}
	return files, nil
}

func (e endpoint) listen() (*os.File, error) {
	family := unix.AF_INET
	var addr unix.Sockaddr = &unix.SockaddrInet4{Port: e.port, Addr: [4]byte{127, 0, 0, 1}}
	if e.ipv6 {
		family = unix.AF_INET6
		addr = &unix.SockaddrInet6{Port: e.port, Addr: [16]byte(net.IPv6loopback)}
	}
	fd, err := unix.Socket(family, e.kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := bindAndListen(fd, addr, e); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), e.String()), nil
}

func bindAndListen(fd int, addr unix.Sockaddr, e endpoint) error {
	if e.ipv6 {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return err
		}
	}
	if err := unix.Bind(fd, addr); err != nil {
		return err
	}
	if e.kind == unix.SOCK_STREAM {
		return unix.Listen(fd, backlog)
	}
	return nil
}

// String is "tcp 127.0.0.1:53" and the like.
func (e endpoint) String() string {
	network := map[int]string{unix.SOCK_STREAM: "tcp", unix.SOCK_DGRAM: "udp"}[e.kind]
	return network + " " + e.address()
}

func (e endpoint) address() string {
	if e.ipv6 {
		return fmt.Sprintf("[::1]:%d", e.port)
	}
	return fmt.Sprintf("127.0.0.1:%d", e.port)
}

// Listeners are the listening ends of a sandbox's only way out, as egress serves them: the host's
// ends of Network.Files, or Forwarded. Each may be empty.
type Listeners struct {
	Transparent []net.Listener   // redirected TCP, see Destination; empty unless Report.Redirected
	Proxy       []net.Listener   // explicit proxy (CONNECT and absolute-form)
	Forwarded   []net.Listener   // connections that begin with a PROXY v2 header naming the destination
	DNSStream   []net.Listener   // DNS over TCP
	DNSPacket   []net.PacketConn // DNS over UDP
}

// Close closes all of them.
func (l Listeners) Close() {
	for _, list := range [][]net.Listener{l.Transparent, l.Proxy, l.Forwarded, l.DNSStream} {
		for _, ln := range list {
			ln.Close()
		}
	}
	for _, pc := range l.DNSPacket {
		pc.Close()
	}
}

// FromFiles turns what a guest sent into listeners. It closes files, whatever
// happens. The guest is not believed: each must be the kind of socket that it
// should be, bound where it should be.
func FromFiles(r Report, files []*os.File) (Listeners, error) {
	defer Network{sockets: files}.Close()
	var l Listeners
	list := endpoints(r)
	if len(files) != len(list) {
		return l, fmt.Errorf("taking over listening sockets: %d came, %d were announced", len(files), len(list))
	}
	for i, e := range list {
		if err := l.take(e, files[i]); err != nil {
			l.Close()
			return Listeners{}, fmt.Errorf("taking over %s: %w", e, err)
		}
	}
	return l, nil
}

// take adds the duplicate of f that it makes.
func (l *Listeners) take(e endpoint, f *os.File) error {
	if e.kind == unix.SOCK_DGRAM {
		return l.takePacket(e, f)
	}
	ln, err := net.FileListener(f)
	if err != nil {
		return err
	}
	tcp, ok := ln.(*net.TCPListener)
	if !ok || ln.Addr().String() != e.address() || !accepts(tcp) {
		ln.Close()
		return errOther
	}
	switch e.port {
	case TransparentPort:
		l.Transparent = append(l.Transparent, ln)
	case ProxyPort:
		l.Proxy = append(l.Proxy, ln)
	default:
		l.DNSStream = append(l.DNSStream, ln)
	}
	return nil
}

func (l *Listeners) takePacket(e endpoint, f *os.File) error {
	pc, err := net.FilePacketConn(f)
	if err != nil {
		return err
	}
	udp, ok := pc.(*net.UDPConn)
	if !ok || pc.LocalAddr().String() != e.address() || udp.RemoteAddr() != nil {
		pc.Close()
		return errOther
	}
	l.DNSPacket = append(l.DNSPacket, pc)
	return nil
}

// errOther refuses a socket that is not the one that was announced.
var errOther = errors.New("not the socket that it should be")

// accepts reports whether ln is in the listening state: net.FileListener takes
// any stream socket.
func accepts(ln *net.TCPListener) bool {
	raw, err := ln.SyscallConn()
	if err != nil {
		return false
	}
	on := 0
	raw.Control(func(fd uintptr) { on, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ACCEPTCONN) })
	return err == nil && on == 1
}
