package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Limits of a name in text form without its trailing dot (RFC 1035, 2.3.4).
const (
	maxName  = 253
	maxLabel = 63
)

var errEmptyName = errors.New("expected a host name, got nothing")

// Canonical is the one form in which names are compared: lower case, ASCII
// (UTS 46 mapping, then IDNA A-labels), without one trailing dot. Labels are
// letters, digits, '-' and '_'. What a resolver could take for an address (RFC 3986
// leaves "0x7f.1" and "2130706433" to it) is not a name.
func Canonical(name string) (string, error) {
	ascii, err := toASCII(name)
	if err != nil {
		return "", err
	}
	if endsInNumber(ascii) {
		return "", fmt.Errorf("%.80q is an address or a wrong one, not a host name", name)
	}
	return ascii, nil
}

// ParseHost reads a host as a client may spell it: a literal address in any
// spelling (see ParseAddr, brackets allowed), or a name, made canonical.
func ParseHost(s string) (host string, addr netip.Addr, err error) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if addr, valid := ParseAddr(inner); ok && valid && strings.Contains(inner, ":") {
			return "", addr, nil
		}
		return "", netip.Addr{}, fmt.Errorf("%.80q is not an IPv6 address in brackets", s)
	}
	if addr, ok := ParseAddr(s); ok {
		return "", addr, nil
	}
	ascii, err := toASCII(s)
	if err != nil {
		return "", netip.Addr{}, err
	}
	if addr, ok := ParseAddr(ascii); ok { // full-width digits and the like
		return "", addr, nil
	}
	host, err = Canonical(ascii)
	return host, netip.Addr{}, err
}

// ParseAuthority reads "host:port" (RFC 3986, 3.2, without user information).
// Without a port it is defaultPort; 0 then makes a missing port an error.
func ParseAuthority(s string, defaultPort uint16) (Request, error) {
	host, portText, hasPort := s, "", false
	if end := strings.LastIndexByte(s, ']'); end >= 0 {
		host, portText = s[:end+1], s[end+1:]
		if portText, hasPort = strings.CutPrefix(portText, ":"); !hasPort && portText != "" {
			return Request{}, fmt.Errorf("%.80q is not host:port", s)
		}
	} else {
		host, portText, hasPort = strings.Cut(s, ":")
	}
	r := Request{Port: defaultPort}
	var err error
	if hasPort {
		if r.Port, err = parsePort(portText); err != nil {
			return Request{}, err
		}
	} else if defaultPort == 0 {
		return Request{}, fmt.Errorf("%.80q has no port", s)
	}
	r.Host, r.Addr, err = ParseHost(host)
	return r, err
}

func toASCII(name string) (string, error) {
	if name == "" || name == "." {
		return "", errEmptyName
	}
	if !utf8.ValidString(name) {
		return "", fmt.Errorf("%.80q is not a host name: it is not text", name)
	}
	if len(name) > 4*maxName { // nothing longer can map to a name
		return "", fmt.Errorf("a host name is at most %d bytes long", maxName)
	}
	if isPlain(name) {
		return checkLabels(strings.TrimSuffix(strings.ToLower(name), "."))
	}
	// Not strict, for '_'; hyphens unchecked, for the likes of r3---sn-x.example.
	profile := idna.New(idna.MapForLookup(), idna.Transitional(false), idna.BidiRule(),
		idna.CheckJoiners(true), idna.StrictDomainName(false), idna.CheckHyphens(false))
	ascii, err := profile.ToASCII(name)
	if err != nil {
		return "", fmt.Errorf("%.80q is not a host name: %w", name, err)
	}
	ascii = strings.TrimSuffix(ascii, ".")
	if isASCII(name) && ascii != strings.TrimSuffix(strings.ToLower(name), ".") {
		return "", fmt.Errorf("%.80q has a label that is not what it stands for", name)
	}
	return checkLabels(ascii)
}

// isPlain says whether IDNA has nothing to do: ASCII without A-labels.
func isPlain(name string) bool {
	for i := 0; i < len(name); i++ {
		if name[i] >= 0x80 {
			return false
		}
		if (i == 0 || name[i-1] == '.') && len(name) >= i+4 && strings.EqualFold(name[i:i+4], "xn--") {
			return false
		}
	}
	return true
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}

// checkLabels checks a lower-case name without a trailing dot.
func checkLabels(name string) (string, error) {
	if len(name) > maxName {
		return "", fmt.Errorf("a host name is at most %d bytes long", maxName)
	}
	start := 0
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '.' {
			if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return "", fmt.Errorf("%.80q is not a host name: %q is not allowed in one", name, c)
			}
			continue
		}
		if i == start || i-start > maxLabel {
			return "", fmt.Errorf("%.80q is not a host name: a label has 1 to %d characters", name, maxLabel)
		}
		start = i + 1
	}
	return name, nil
}

// endsInNumber says whether the last label is a number in decimal, octal or
// hexadecimal, which makes resolvers try the whole as an IPv4 address.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

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
