package policy

import "net/netip"

// Class says what kind of place an address is. The zero value is not public.
type Class uint8

// The classes. Only Public may be dialled without being named.
const (
	Reserved      Class = iota // assigned to nothing that can be reached
	Public                     // the internet
	Private                    // RFC 1918, RFC 4193 (unique local)
	Shared                     // RFC 6598, carrier-grade NAT (and overlay networks)
	OnLink                     // public, but the host's own or its direct neighbour's; only the caller knows
	Loopback                   // RFC 1122, RFC 4291
	LinkLocal                  // RFC 3927, RFC 4291
	Metadata                   // where clouds serve a machine's credentials
	Multicast                  //
	Unspecified                // 0.0.0.0/8, ::
	Benchmark                  // RFC 2544, RFC 5180: the synthetic addresses inside
	Documentation              // RFC 5737, RFC 3849, RFC 9637
	Transition                 // carries an IPv4 address somewhere inside: 6to4, Teredo, ISATAP, ...
)

func (c Class) String() string {
	switch c {
	case Public:
		return "public"
	case Private:
		return "private"
	case Shared:
		return "in shared address space"
	case OnLink:
		return "in this host's own network"
	case Loopback:
		return "loopback"
	case LinkLocal:
		return "link-local"
	case Metadata:
		return "a metadata service"
	case Multicast:
		return "multicast"
	case Unspecified:
		return "unspecified"
	case Benchmark:
		return "a benchmark address"
	case Documentation:
		return "a documentation address"
	case Transition:
		return "a transition address"
	default:
		return "reserved"
	}
}

// nameable says whether a name that was allowed with its port may lead there.
func (c Class) nameable() bool { return c == Private || c == Shared || c == OnLink }

// Mirror says whether a name that the user has said to be private may lead there.
func (c Class) Mirror() bool { return c.nameable() || c == Documentation || c == Benchmark }

// network is one row of a table of address ranges; the first that contains an address decides.
type network struct {
	prefix netip.Prefix
	class  Class
}

// Classify tells the class of an address after the IANA special-purpose
// registries. IPv4-mapped addresses and addresses under NAT64's well-known prefix
// (RFC 6052) are what the IPv4 address in them is. A zone does not matter.
func Classify(addr netip.Addr) Class {
	addr = addr.WithZone("").Unmap()
	switch {
	case !addr.IsValid():
		return Reserved
	case addr.Is4():
		return classify4(addr.As4())
	}
	b := addr.As16()
	if nat64.Contains(addr) {
		return classify4([4]byte(b[12:16]))
	}
	for _, n := range networks6 {
		if n.prefix.Contains(addr) {
			return n.class
		}
	}
	if b[0]&0xe0 != 0x20 { // only 2000::/3 is assigned to be reached
		return Reserved
	}
	if b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe { // ISATAP, RFC 5214
		return Transition
	}
	return Public
}

func classify4(b [4]byte) Class {
	addr := netip.AddrFrom4(b)
	for _, n := range networks4 {
		if n.prefix.Contains(addr) {
			return n.class
		}
	}
	return Public
}

var nat64 = netip.MustParsePrefix("64:ff9b::/96")

var networks4 = []network{
	{netip.MustParsePrefix("169.254.169.254/32"), Metadata},
	{netip.MustParsePrefix("169.254.170.0/24"), Metadata},   // container credentials
	{netip.MustParsePrefix("168.63.129.16/32"), Metadata},   // public in name only
	{netip.MustParsePrefix("100.100.100.200/32"), Metadata}, // inside shared space
	{netip.MustParsePrefix("192.0.0.192/32"), Metadata},
	{netip.MustParsePrefix("0.0.0.0/8"), Unspecified},
	{netip.MustParsePrefix("10.0.0.0/8"), Private},
	{netip.MustParsePrefix("100.64.0.0/10"), Shared},
	{netip.MustParsePrefix("127.0.0.0/8"), Loopback},
	{netip.MustParsePrefix("169.254.0.0/16"), LinkLocal},
	{netip.MustParsePrefix("172.16.0.0/12"), Private},
	{netip.MustParsePrefix("192.0.0.0/24"), Reserved},
	{netip.MustParsePrefix("192.0.2.0/24"), Documentation},
	{netip.MustParsePrefix("192.88.99.0/24"), Transition},
	{netip.MustParsePrefix("192.168.0.0/16"), Private},
	{netip.MustParsePrefix("198.18.0.0/15"), Benchmark},
	{netip.MustParsePrefix("198.51.100.0/24"), Documentation},
	{netip.MustParsePrefix("203.0.113.0/24"), Documentation},
	{netip.MustParsePrefix("224.0.0.0/4"), Multicast},
	{netip.MustParsePrefix("240.0.0.0/4"), Reserved}, // broadcast too
}

var networks6 = []network{
	{netip.MustParsePrefix("fd00:ec2::254/128"), Metadata},
	{netip.MustParsePrefix("fd00:ec2::23/128"), Metadata},
	{netip.MustParsePrefix("fd20:ce::254/128"), Metadata},
	{netip.MustParsePrefix("::/128"), Unspecified},
	{netip.MustParsePrefix("::1/128"), Loopback},
	{netip.MustParsePrefix("::/96"), Transition},           // IPv4-compatible, RFC 4291
	{netip.MustParsePrefix("::ffff:0:0:0/96"), Transition}, // IPv4-translated, RFC 2765
	{netip.MustParsePrefix("64:ff9b:1::/48"), Transition},  // NAT64 of a local network, RFC 8215
	{netip.MustParsePrefix("fc00::/7"), Private},
	{netip.MustParsePrefix("fe80::/10"), LinkLocal},
	{netip.MustParsePrefix("fec0::/10"), Private}, // site-local, RFC 3879
	{netip.MustParsePrefix("ff00::/8"), Multicast},
	{netip.MustParsePrefix("2001::/32"), Transition}, // Teredo
	{netip.MustParsePrefix("2001:2::/48"), Benchmark},
	{netip.MustParsePrefix("2001:db8::/32"), Documentation},
	{netip.MustParsePrefix("2001::/23"), Reserved},   // IETF protocol assignments
	{netip.MustParsePrefix("2002::/16"), Transition}, // 6to4
	{netip.MustParsePrefix("3fff::/20"), Documentation},
}
