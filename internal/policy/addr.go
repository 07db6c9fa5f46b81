package policy

import (
	"net/netip"
	"strconv"
	"strings"
)

// ParseAddr reads a literal address in any spelling that some resolver takes
// for one: the usual forms, IPv4-mapped IPv6 (returned as IPv4), IPv6 with a zone
// (kept), and inet_aton's: one to four numbers in decimal, octal or hexadecimal,
// with or without a trailing dot.
func ParseAddr(s string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr.Unmap(), true
	}
	return parseAton(strings.TrimSuffix(s, "."))
}

// parseAton reads an IPv4 address as inet_aton(3) does.
func parseAton(s string) (netip.Addr, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return netip.Addr{}, false
	}
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var ip uint64
	for i, part := range parts {
		n, ok := parseAtonNumber(part)
		if !ok {
			return netip.Addr{}, false
		}
		bits := 8
		if i == len(parts)-1 { // the last number fills what is left
			bits = 8 * (5 - len(parts))
		}
		if n >= 1<<bits {
			return netip.Addr{}, false
		}
		ip = ip<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(ip >> 24), byte(ip >> 16), byte(ip >> 8), byte(ip)}), true
}

func parseAtonNumber(s string) (uint64, bool) {
	base := 10
	switch {
	case strings.HasPrefix(s, "0x"), strings.HasPrefix(s, "0X"):
		s, base = s[2:], 16
		if s == "" { // "0x" is 0 to inet_aton
			return 0, true
		}
	case len(s) > 1 && s[0] == '0':
		s, base = s[1:], 8
	}
	if s == "" || s[0] == '+' || s[0] == '-' || strings.Contains(s, "_") {
		return 0, false
	}
	n, err := strconv.ParseUint(s, base, 33)
	return n, err == nil
}
