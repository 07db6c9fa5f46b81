package sniff

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
)

var proxySignature = []byte("\r\n\r\n\x00\r\nQUIT\n")

// maxProxyHeader bounds what follows the fixed 16 bytes.
const maxProxyHeader = 1024

// ReadProxyHeader reads a PROXY protocol v2 header ("The PROXY protocol", 2.2)
// from r, not a byte more, and returns the destination that it names. Only the
// command PROXY for TCP over IPv4 or IPv6 is understood; its TLVs are ignored.
func ReadProxyHeader(r io.Reader) (netip.AddrPort, error) {
	var fixed [16]byte
	if _, err := io.ReadFull(r, fixed[:]); err != nil {
		return netip.AddrPort{}, fmt.Errorf("reading the PROXY header: %w", err)
	}
	size := int(binary.BigEndian.Uint16(fixed[14:]))
	switch {
	case !bytes.Equal(fixed[:12], proxySignature):
		return netip.AddrPort{}, refuse("proxy-header", "the connection does not begin with a PROXY header")
	case fixed[12] != 0x21: // version 2, command PROXY
		return netip.AddrPort{}, refuse("proxy-header", "PROXY version and command %#x are not understood", fixed[12])
	case size > maxProxyHeader:
		return netip.AddrPort{}, refuse("proxy-header", "a PROXY header of %d bytes is too long", size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return netip.AddrPort{}, fmt.Errorf("reading the PROXY header: %w", err)
	}
	switch {
	case fixed[13] == 0x11 && size >= 12:
		addr := netip.AddrFrom4([4]byte(body[4:8]))
		return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(body[10:])), nil
	case fixed[13] == 0x21 && size >= 36:
		addr := netip.AddrFrom16([16]byte(body[16:32])).Unmap()
		return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(body[34:])), nil
	}
	return netip.AddrPort{}, refuse("proxy-header", "the PROXY header names no TCP destination")
}
