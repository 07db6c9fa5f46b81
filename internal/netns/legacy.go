package netns

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// gVisor's network stack has no nftables. It has the nat table of legacy iptables, which is written
// through a raw socket: include/uapi/linux/netfilter_ipv4/ip_tables.h, and ipv6 likewise. The
// rules, as iptables-save and ip6tables-save would print them:
//
//	*nat
//	-A OUTPUT -d 127.0.0.0/8 -j ACCEPT
//	-A OUTPUT -p tcp -m tcp --dport 53 -j REDIRECT --to-ports 53
//	-A OUTPUT -p udp -m udp --dport 53 -j REDIRECT --to-ports 53
//	-A OUTPUT -p tcp -j REDIRECT --to-ports 61080
//	-A OUTPUT -p udp -j REDIRECT --to-ports 9
//
// Nothing listens on port 9, so other UDP is refused at once.

// discardPort is where UDP is sent that is to be refused.
const discardPort = 9

// Numbers of include/uapi/linux/netfilter: the sockopts of both versions are the same.
const (
	legacySetReplace = 64 // IPT_SO_SET_REPLACE
	legacyGetInfo    = 64 // IPT_SO_GET_INFO
	hookPrerouting   = unix.NF_INET_PRE_ROUTING
	hookInput        = unix.NF_INET_LOCAL_IN
	hookOutput       = unix.NF_INET_LOCAL_OUT
	hookPostrouting  = unix.NF_INET_POST_ROUTING
	verdictAccept    = ^uint32(nfAccept) // -NF_ACCEPT - 1
	targetName       = 29                // bytes of an extension's name: XT_EXTENSION_MAXNAMELEN
	tableNameLength  = 32                // XT_TABLE_MAXNAMELEN
)

// legacyTable is the blob of one version's table.
type legacyTable struct {
	v6      bool
	blob    []byte
	entries uint32
}

// loadLegacyRules replaces the nat tables of the calling process's network namespace.
func loadLegacyRules(port uint16, ipv6 bool) error {
	if err := (&legacyTable{}).replace(port); err != nil {
		return fmt.Errorf("iptables: %w", err)
	}
	if !ipv6 {
		return nil
	}
	if err := (&legacyTable{v6: true}).replace(port); err != nil {
		return fmt.Errorf("ip6tables: %w", err)
	}
	return nil
}

// replace is struct ipt_replace with the entries behind it.
func (t *legacyTable) replace(port uint16) error {
	hooks := map[int]uint32{}  // where each chain begins
	policy := map[int]uint32{} // where its last rule is
	end := func(hook int) {
		if _, begun := hooks[hook]; !begun {
			hooks[hook] = uint32(len(t.blob))
		}
		policy[hook] = uint32(len(t.blob))
		t.rule(0, 0, false, standard())
	}
	end(hookPrerouting)
	end(hookInput)
	hooks[hookOutput] = uint32(len(t.blob))
	t.rule(0, 0, true, standard())
	t.rule(unix.IPPROTO_TCP, DNSPort, false, t.redirect(DNSPort))
	t.rule(unix.IPPROTO_UDP, DNSPort, false, t.redirect(DNSPort))
	t.rule(unix.IPPROTO_TCP, 0, false, t.redirect(port))
	t.rule(unix.IPPROTO_UDP, 0, false, t.redirect(discardPort))
	end(hookOutput)
	end(hookPostrouting)
	t.rule(0, 0, false, target(tableNameLength+30, "ERROR", []byte("ERROR"))) // which ends a table

	family, level := unix.AF_INET, unix.SOL_IP
	if t.v6 {
		family, level = unix.AF_INET6, unix.SOL_IPV6
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return fmt.Errorf("a raw socket: %w", err)
	}
	defer unix.Close(fd)
	old, err := oldEntries(fd, level)
	if err != nil {
		return err
	}
	counters := make([]byte, 16*old) // struct xt_counters of each, which the kernel gives back
	b := append([]byte("nat"), make([]byte, tableNameLength-3)...)
	b = binary.NativeEndian.AppendUint32(b, 1<<hookPrerouting|1<<hookInput|1<<hookOutput|1<<hookPostrouting)
	b = binary.NativeEndian.AppendUint32(b, t.entries)
	b = binary.NativeEndian.AppendUint32(b, uint32(len(t.blob)))
	for _, at := range []map[int]uint32{hooks, policy} {
		for hook := range 5 {
			b = binary.NativeEndian.AppendUint32(b, at[hook])
		}
	}
	b = binary.NativeEndian.AppendUint32(b, uint32(old))
	b = binary.NativeEndian.AppendUint64(b, uint64(uintptr(unsafe.Pointer(unsafe.SliceData(counters)))))
	b = append(b, t.blob...)
	err = unix.SetsockoptString(fd, level, legacySetReplace, string(b))
	runtime.KeepAlive(counters)
	return err
}

// oldEntries is how many rules the table has: struct ipt_getinfo.
func oldEntries(fd, level int) (uint32, error) {
	info := make([]byte, 84)
	copy(info, "nat")
	size := uint32(len(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), legacyGetInfo,
		uintptr(unsafe.Pointer(&info[0])), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("the nat table: %w", errno)
	}
	return binary.NativeEndian.Uint32(info[76:]), nil
}

// rule is struct ipt_entry or ip6t_entry. Zero matches everything; loopback only what goes there.
func (t *legacyTable) rule(protocol byte, dport uint16, loopback bool, target []byte) {
	var head []byte
	var offsets int
	if t.v6 {
		head, offsets = make([]byte, 168), 140
		head[128] = protocol
		if protocol != 0 {
			head[131] = 1 // IP6T_F_PROTO
		}
		if loopback { // ::1/128
			head[31] = 1
			for i := 48; i < 64; i++ {
				head[i] = 0xff
			}
		}
	} else {
		head, offsets = make([]byte, 112), 88
		head[80] = protocol
		if loopback { // 127.0.0.0/8
			head[4], head[12] = 127, 255
		}
	}
	match := destination(protocol, dport)
	binary.NativeEndian.PutUint16(head[offsets:], uint16(len(head)+len(match)))
	binary.NativeEndian.PutUint16(head[offsets+2:], uint16(len(head)+len(match)+len(target)))
	t.blob = append(append(append(t.blob, head...), match...), target...)
	t.entries++
}

// destination is struct xt_entry_match with xt_tcp or xt_udp, which begin alike: source ports,
// destination ports.
func destination(protocol byte, port uint16) []byte {
	if port == 0 {
		return nil
	}
	name := "udp"
	if protocol == unix.IPPROTO_TCP {
		name = "tcp"
	}
	ports := binary.NativeEndian.AppendUint16([]byte{0, 0, 0xff, 0xff}, port)
	return target(48, name, binary.NativeEndian.AppendUint16(ports, port))
}

// target is struct xt_entry_target, or xt_entry_match, of that size.
func target(size int, name string, data []byte) []byte {
	b := make([]byte, (size+7)&^7)
	binary.NativeEndian.PutUint16(b, uint16(len(b)))
	copy(b[2:2+targetName], name)
	copy(b[32:], data)
	return b
}

// standard accepts.
func standard() []byte {
	return target(40, "", binary.NativeEndian.AppendUint32(nil, verdictAccept))
}

// redirect is nf_nat_range for IPv6, and nf_nat_ipv4_multi_range_compat of one range for IPv4.
func (t *legacyTable) redirect(port uint16) []byte {
	const protoSpecified = 2 // NF_NAT_RANGE_PROTO_SPECIFIED
	if t.v6 {
		data := append(binary.NativeEndian.AppendUint32(nil, protoSpecified), make([]byte, 32)...)
		data = binary.BigEndian.AppendUint16(data, port)
		return target(72, "REDIRECT", binary.BigEndian.AppendUint16(data, port))
	}
	data := binary.NativeEndian.AppendUint32(nil, 1)
	data = append(binary.NativeEndian.AppendUint32(data, protoSpecified), make([]byte, 8)...)
	data = binary.BigEndian.AppendUint16(data, port)
	return target(56, "REDIRECT", binary.BigEndian.AppendUint16(data, port))
}
