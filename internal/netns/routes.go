package netns

import (
	"encoding/binary"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// loopbackIndex is lo's interface index in every namespace: LOOPBACK_IFINDEX.
const loopbackIndex = 1

// loopbackUp turns lo on; the kernel then gives it 127.0.0.1 and ::1.
func loopbackUp() error {
	var m batch
	var info [unix.SizeofIfInfomsg]byte
	binary.NativeEndian.PutUint32(info[4:], loopbackIndex)
	binary.NativeEndian.PutUint32(info[8:], unix.IFF_UP)  // flags
	binary.NativeEndian.PutUint32(info[12:], unix.IFF_UP) // which of them change
	m.begin(unix.RTM_NEWLINK, unix.NLM_F_ACK, info[:])
	m.end()
	if err := m.send(unix.NETLINK_ROUTE, 1); err != nil {
		return fmt.Errorf("turning lo on: %w", err)
	}
	return nil
}

// hasLoopback6 reports, by binding there, whether ::1 can be used.
func hasLoopback6() bool {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.Bind(fd, &unix.SockaddrInet6{Addr: [16]byte(net.IPv6loopback)}) == nil
}

// addLocalRoute makes every address of a family one of lo's own:
//
//	ip route add local 0.0.0.0/0 dev lo
//	ip -6 route add local ::/0 dev lo
//
// For IPv4 it also adds an address for AI_ADDRCONFIG (getaddrinfo(3)): a C
// library that sees none but 127.0.0.1 finds no IPv4 address for any name.
//
//	ip address add 127.0.0.2/32 dev lo
func addLocalRoute(family byte) error {
	var m batch
	acks := 1
	everything := make([]byte, 4)
	if family == unix.AF_INET6 {
		everything = make([]byte, 16)
	}
	// struct rtmsg: of no length, which is the default route. gVisor wants it spelt out.
	m.begin(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK, []byte{
		family, 0, 0, 0,
		unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, unix.RT_SCOPE_HOST, unix.RTN_LOCAL,
		0, 0, 0, 0,
	})
	m.attr(unix.RTA_DST, everything)
	m.attr(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, loopbackIndex))
	m.end()
	if family == unix.AF_INET {
		// struct ifaddrmsg
		m.begin(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_ACK,
			binary.NativeEndian.AppendUint32([]byte{unix.AF_INET, 32, 0, unix.RT_SCOPE_HOST}, loopbackIndex))
		m.attr(unix.IFA_LOCAL, []byte{127, 0, 0, 2})
		m.end()
		acks++
	}
	return m.send(unix.NETLINK_ROUTE, acks)
}
