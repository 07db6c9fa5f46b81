package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/audit"
	"forage/internal/egress/dns"
	"forage/internal/egress/relay"
	"forage/internal/egress/sniff"
	"forage/internal/policy"
)

// serveTransparent serves a redirected connection.
func (f *flow) serveTransparent() {
	dst, err := originalDestination(f.client)
	if err != nil {
		f.e.refuse(f, audit.Event{Kind: audit.Connect}, "no-destination", err.Error())
		return
	}
	f.serveDestination(dst)
}

// serveForwarded serves a connection that begins with a PROXY header. Where
// there is no redirect, the ports of our own services inside arrive this way too.
func (f *flow) serveForwarded() {
	f.client.SetReadDeadline(time.Now().Add(f.e.config.SniffTimeout))
	dst, err := sniff.ReadProxyHeader(f.client)
	f.client.SetReadDeadline(time.Time{})
	switch {
	case err != nil:
		f.e.refuse(f, audit.Event{Kind: audit.Connect}, "proxy-header", err.Error())
	case isOwn(dst) && dst.Port() == forage.ProxyPort:
		f.serveProxy()
	default:
		f.serveDestination(dst)
	}
}

// serveDestination serves a connection to an address as it was asked for inside.
func (f *flow) serveDestination(dst netip.AddrPort) {
	e := f.e
	addr := dst.Addr().Unmap()
	if dst.Port() == forage.DNSPort {
		f.serveDNS()
		return
	}
	event := audit.Event{Kind: audit.Connect, Host: addr.String(), Port: dst.Port()}
	r := policy.Request{Addr: addr, Port: dst.Port()}
	switch {
	case isOwn(dst):
		e.refuse(f, event, "own-listener", "connections to loopback end inside the sandbox")
		return
	case dst.Port() == 0:
		e.refuse(f, event, policy.RuleMalformed, "there is no port 0")
		return
	case dns.Synthetic(addr):
		name, ok := e.names.Name(addr)
		if !ok {
			e.refuse(f, event, "unknown-address", "this address was not handed out for any name")
			return
		}
		r = policy.Request{Host: name, Port: dst.Port()}
	}
	f.serveRequest(r)
}

// serveRequest judges and serves a connection whose destination is known
// before its client has said anything.
func (f *flow) serveRequest(r policy.Request) {
	event := audit.Event{Kind: audit.Connect}
	c, err := f.judge(r, event)
	if err != nil {
		relay.Reset(f.client)
		return
	}
	f.tunnel(c, event, nil, nil)
}

// serveDNS answers questions on a stream.
func (f *flow) serveDNS() {
	if err := f.e.judgeDNS().ServeStream(f.client); err != nil {
		relay.Reset(f.client)
	}
}

// originalDestination is where a redirected connection was meant to go, as
// the kernel remembers it (nf_conntrack; SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST).
func originalDestination(conn net.Conn) (netip.AddrPort, error) {
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
