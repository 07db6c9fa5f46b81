package dns

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"sync"
)

// The ranges that synthetic addresses are from: both are set aside for
// benchmarks (RFC 2544, RFC 5180), so nothing real is ever there. A name has the
// same number in both.
var (
	range4 = netip.MustParsePrefix("198.18.0.0/15")
	range6 = netip.MustParsePrefix("2001:2::/48")
)

// Bounds of Names: addresses of the IPv4 range but its first and its last,
// and bytes of names (an agent may make up names of any length under a wildcard).
const (
	maxNames     = 1<<17 - 2
	maxNameBytes = 8 << 20
)

// Names are the synthetic addresses that were handed out. An address belongs
// to its name for good. The zero value is ready; it is safe for concurrent use.
type Names struct {
	mu     sync.Mutex
	number map[string]uint32 // 1 is the first
	names  []string          // by number-1
	bytes  int
}

// Number is the number of a name's addresses. ok is false when the name has
// none and none is left.
func (n *Names) Number(name string) (number uint32, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if number, ok := n.number[name]; ok {
		return number, true
	}
	if len(n.names) >= maxNames || n.bytes+len(name) > maxNameBytes {
		return 0, false
	}
	if n.number == nil {
		n.number = make(map[string]uint32)
	}
	name = strings.Clone(name)
	n.names = append(n.names, name)
	n.bytes += len(name)
	number = uint32(len(n.names))
	n.number[name] = number
	return number, true
}

// Name is the name that addr was handed out for.
func (n *Names) Name(addr netip.Addr) (name string, ok bool) {
	number := numberOf(addr)
	n.mu.Lock()
	defer n.mu.Unlock()
	if number == 0 || int(number) > len(n.names) {
		return "", false
	}
	return n.names[number-1], true
}

// Synthetic says whether addr is in one of the ranges that Names hand out.
func Synthetic(addr netip.Addr) bool {
	addr = addr.Unmap()
	return range4.Contains(addr) || range6.Contains(addr)
}

// Addr4 and Addr6 are the addresses with a number that Names gave.
func Addr4(number uint32) netip.Addr {
	b := range4.Addr().As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+number)
	return netip.AddrFrom4(b)
}

// Addr6 is the IPv6 counterpart of Addr4.
func Addr6(number uint32) netip.Addr {
	b := range6.Addr().As16()
	binary.BigEndian.PutUint32(b[12:], number)
	return netip.AddrFrom16(b)
}

// numberOf is the inverse of Addr4 and Addr6; 0 is no number.
func numberOf(addr netip.Addr) uint32 {
	addr = addr.Unmap()
	switch {
	case range4.Contains(addr):
		b, first := addr.As4(), range4.Addr().As4()
		return binary.BigEndian.Uint32(b[:]) - binary.BigEndian.Uint32(first[:])
	case range6.Contains(addr) && addr.Zone() == "":
		b := addr.As16()
		if number := binary.BigEndian.Uint32(b[12:]); Addr6(number) == addr {
			return number
		}
	}
	return 0
}
