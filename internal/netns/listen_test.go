package netns

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// socketFile is a socket of the given kind, bound to address and then prepared.
func socketFile(t *testing.T, kind int, address string, prepare func(fd int) error) (f *os.File, port int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	ip := netip.MustParseAddr(address)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: ip.As4()}), prepare(fd)); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "socket"), name.(*unix.SockaddrInet4).Port
}

func TestTakeBelievesNothing(t *testing.T) {
	none := func(int) error { return nil }
	listening := func(fd int) error { return unix.Listen(fd, 1) }
	connected := func(fd int) error {
		return unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: 9})
	}
	for _, tc := range []struct {
		name     string
		kind     int // of the socket
		address  string
		prepare  func(int) error
		announce endpoint // its port is added to the socket's
		want     bool
	}{
		{"a listener", unix.SOCK_STREAM, "127.0.0.1", listening, endpoint{kind: unix.SOCK_STREAM}, true},
		{"a UDP socket", unix.SOCK_DGRAM, "127.0.0.1", none, endpoint{kind: unix.SOCK_DGRAM}, true},
		{"another port", unix.SOCK_STREAM, "127.0.0.1", listening, endpoint{kind: unix.SOCK_STREAM, port: 1}, false},
		{"the wildcard", unix.SOCK_STREAM, "0.0.0.0", listening, endpoint{kind: unix.SOCK_STREAM}, false},
		{"another family", unix.SOCK_STREAM, "127.0.0.1", listening, endpoint{kind: unix.SOCK_STREAM, ipv6: true}, false},
		{"not listening", unix.SOCK_STREAM, "127.0.0.1", none, endpoint{kind: unix.SOCK_STREAM}, false},
		{"UDP for TCP", unix.SOCK_DGRAM, "127.0.0.1", none, endpoint{kind: unix.SOCK_STREAM}, false},
		{"TCP for UDP", unix.SOCK_STREAM, "127.0.0.1", listening, endpoint{kind: unix.SOCK_DGRAM}, false},
		{"another UDP port", unix.SOCK_DGRAM, "127.0.0.1", none, endpoint{kind: unix.SOCK_DGRAM, port: 1}, false},
		{"connected UDP", unix.SOCK_DGRAM, "127.0.0.1", connected, endpoint{kind: unix.SOCK_DGRAM}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, port := socketFile(t, tc.kind, tc.address, tc.prepare)
			defer f.Close()
			tc.announce.port += port
			var l Listeners
			if err := l.take(tc.announce, f); (err == nil) != tc.want {
				t.Errorf("taken over: %v", err)
			}
			l.Close()
		})
	}
}

func TestFromFilesClosesAll(t *testing.T) {
	for _, n := range []int{0, 2, 3, 9} {
		var files []*os.File
		for range n {
			f, err := os.Open("/dev/null")
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		if _, err := FromFiles(Report{}, files); err == nil {
			t.Errorf("%d files that are no sockets were taken over", n)
		}
		for i, f := range files {
			if f.Close() == nil {
				t.Errorf("file %d was left open", i)
			}
		}
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
