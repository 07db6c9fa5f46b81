package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Destination is where a redirected connection was meant to go, as
// the kernel remembers it (nf_conntrack; SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST).
func Destination(conn net.Conn) (netip.AddrPort, error) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return netip.AddrPort{}, errors.New("not a TCP connection")
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	remote, ok := tcp.RemoteAddr().(*net.TCPAddr)
	is4 := ok && remote.IP.To4() != nil
	var dst netip.AddrPort
	var sockErr error
	err = raw.Control(func(fd uintptr) {
		if is4 {
			dst, sockErr = originalDestination4(int(fd))
		} else {
			dst, sockErr = originalDestination6(int(fd))
		}
	})
	if err := errors.Join(err, sockErr); err != nil {
		return netip.AddrPort{}, fmt.Errorf("reading the original destination: %w", err)
	}
	return dst, nil
}

// soOriginalDst has the same number in linux/netfilter_ipv4.h and netfilter_ipv6/ip6_tables.h.
const soOriginalDst = 80

func originalDestination4(fd int) (netip.AddrPort, error) {
	// A struct ip_mreqn has room for the struct sockaddr_in that the kernel gives:
	// family, port, address.
	got, err := unix.GetsockoptIPv6Mreq(fd, unix.IPPROTO_IP, soOriginalDst)
	if err != nil {
		return netip.AddrPort{}, err
	}
	b := got.Multiaddr
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), uint16(b[2])<<8|uint16(b[3])), nil
}

func originalDestination6(fd int) (netip.AddrPort, error) {
	got, err := unix.GetsockoptIPv6MTUInfo(fd, unix.IPPROTO_IPV6, soOriginalDst)
	if err != nil {
		return netip.AddrPort{}, err
	}
	port := got.Addr.Port // as it is on the wire
	return netip.AddrPortFrom(netip.AddrFrom16(got.Addr.Addr).Unmap(), port>>8|port<<8), nil
}
