package netns

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// The rules, as nft would print them:
//
//	table inet forage {
//		chain redirect {
//			type nat hook output priority dstnat; policy accept;
//			ip daddr 127.0.0.0/8 return
//			ip6 daddr ::1 return
//			tcp dport 53 redirect to :53
//			udp dport 53 redirect to :53
//			meta l4proto tcp redirect to :61080
//		}
//		chain refuse {
//			type filter hook input priority filter; policy drop;
//			ct state established,related accept
//			ip daddr 127.0.0.0/8 accept
//			ip6 daddr ::1 accept
//			meta l4proto tcp reject with tcp reset
//			reject with icmpx port-unreachable
//		}
//	}
//
// Refusing on the way in, not on the way out, gives the sender of UDP
// ECONNREFUSED, after which QUIC stacks fall back to TCP at once.
const tableName = "forage"

const (
	redirectChain = "redirect"
	refuseChain   = "refuse"
)

// Priorities: include/uapi/linux/netfilter_ipv4.h, NF_IP_PRI_NAT_DST and NF_IP_PRI_FILTER.
const (
	priorityDstNAT = -100
	priorityFilter = 0
)

// Verdicts: include/uapi/linux/netfilter.h.
const (
	nfDrop   = 0
	nfAccept = 1
)

// nfgenmsg for the inet family.
func inetHeader() []byte { return []byte{unix.NFPROTO_INET, unix.NFNETLINK_V0, 0, 0} }

// loadRules puts the table into the calling process's namespace, as one transaction.
func loadRules(port uint16) error {
	r := ruleset{}
	r.transaction(unix.NFNL_MSG_BATCH_BEGIN)
	r.message(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, func() {
		r.str(unix.NFTA_TABLE_NAME, tableName)
		r.u32(unix.NFTA_TABLE_FLAGS, 0)
	})
	r.chain(redirectChain, "nat", unix.NF_INET_LOCAL_OUT, priorityDstNAT, nfAccept)
	r.chain(refuseChain, "filter", unix.NF_INET_LOCAL_IN, priorityFilter, nfDrop)

	r.rule(redirectChain, func() { r.toLoopback4(); r.verdict(unix.NFT_RETURN) })
	r.rule(redirectChain, func() { r.toLoopback6(); r.verdict(unix.NFT_RETURN) })
	r.rule(redirectChain, func() { r.protocol(unix.IPPROTO_TCP); r.dport(DNSPort); r.redirect(DNSPort) })
	r.rule(redirectChain, func() { r.protocol(unix.IPPROTO_UDP); r.dport(DNSPort); r.redirect(DNSPort) })
	r.rule(redirectChain, func() { r.protocol(unix.IPPROTO_TCP); r.redirect(port) })

	r.rule(refuseChain, func() { r.tracked(); r.verdict(nfAccept) })
	r.rule(refuseChain, func() { r.toLoopback4(); r.verdict(nfAccept) })
	r.rule(refuseChain, func() { r.toLoopback6(); r.verdict(nfAccept) })
	r.rule(refuseChain, func() { r.protocol(unix.IPPROTO_TCP); r.reject(unix.NFT_REJECT_TCP_RST, 0) })
	r.rule(refuseChain, func() { r.reject(unix.NFT_REJECT_ICMPX_UNREACH, unix.NFT_REJECT_ICMPX_PORT_UNREACH) })
	r.transaction(unix.NFNL_MSG_BATCH_END)
	return r.send(unix.NETLINK_NETFILTER, r.acks)
}

// ruleset builds nf_tables messages.
type ruleset struct {
	batch
	acks int
}

// transaction begins or ends the batch: all of it is applied, or nothing.
func (r *ruleset) transaction(kind uint16) {
	head := binary.BigEndian.AppendUint16([]byte{unix.AF_UNSPEC, unix.NFNETLINK_V0}, unix.NFNL_SUBSYS_NFTABLES)
	r.begin(kind, 0, head)
	r.end()
}

func (r *ruleset) message(kind, flags uint16, attributes func()) {
	r.begin(unix.NFNL_SUBSYS_NFTABLES<<8|kind, flags|unix.NLM_F_ACK, inetHeader())
	attributes()
	r.end()
	r.acks++
}

func (r *ruleset) chain(name, kind string, hook uint32, priority int32, policy uint32) {
	r.message(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE|unix.NLM_F_EXCL, func() {
		r.str(unix.NFTA_CHAIN_TABLE, tableName)
		r.str(unix.NFTA_CHAIN_NAME, name)
		r.nest(unix.NFTA_CHAIN_HOOK, func() {
			r.u32(unix.NFTA_HOOK_HOOKNUM, hook)
			r.u32(unix.NFTA_HOOK_PRIORITY, uint32(priority))
		})
		r.u32(unix.NFTA_CHAIN_POLICY, policy)
		r.str(unix.NFTA_CHAIN_TYPE, kind)
	})
}

func (r *ruleset) rule(chain string, expressions func()) {
	r.message(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, func() {
		r.str(unix.NFTA_RULE_TABLE, tableName)
		r.str(unix.NFTA_RULE_CHAIN, chain)
		r.nest(unix.NFTA_RULE_EXPRESSIONS, expressions)
	})
}

func (r *ruleset) expression(name string, attributes func()) {
	r.nest(unix.NFTA_LIST_ELEM, func() {
		r.str(unix.NFTA_EXPR_NAME, name)
		r.nest(unix.NFTA_EXPR_DATA, attributes)
	})
}

// value adds an attribute that holds raw data, in network byte order.
func (r *ruleset) value(kind uint16, data []byte) {
	r.nest(kind, func() { r.attr(unix.NFTA_DATA_VALUE, data) })
}

// meta loads a property of the packet into register 1.
func (r *ruleset) meta(key uint32) {
	r.expression("meta", func() {
		r.u32(unix.NFTA_META_DREG, unix.NFT_REG_1)
		r.u32(unix.NFTA_META_KEY, key)
	})
}

// payload loads bytes of a header into register 1.
func (r *ruleset) payload(base, offset, length uint32) {
	r.expression("payload", func() {
		r.u32(unix.NFTA_PAYLOAD_DREG, unix.NFT_REG_1)
		r.u32(unix.NFTA_PAYLOAD_BASE, base)
		r.u32(unix.NFTA_PAYLOAD_OFFSET, offset)
		r.u32(unix.NFTA_PAYLOAD_LEN, length)
	})
}

// compare goes on only if register 1 is (NFT_CMP_EQ) or is not (NFT_CMP_NEQ) want.
func (r *ruleset) compare(op uint32, want []byte) {
	r.expression("cmp", func() {
		r.u32(unix.NFTA_CMP_SREG, unix.NFT_REG_1)
		r.u32(unix.NFTA_CMP_OP, op)
		r.value(unix.NFTA_CMP_DATA, want)
	})
}

// toLoopback4 matches ip daddr 127.0.0.0/8 by the address's first byte.
func (r *ruleset) toLoopback4() {
	r.meta(unix.NFT_META_NFPROTO)
	r.compare(unix.NFT_CMP_EQ, []byte{unix.NFPROTO_IPV4})
	r.payload(unix.NFT_PAYLOAD_NETWORK_HEADER, 16, 1)
	r.compare(unix.NFT_CMP_EQ, []byte{127})
}

// toLoopback6 matches ip6 daddr ::1.
func (r *ruleset) toLoopback6() {
	r.meta(unix.NFT_META_NFPROTO)
	r.compare(unix.NFT_CMP_EQ, []byte{unix.NFPROTO_IPV6})
	r.payload(unix.NFT_PAYLOAD_NETWORK_HEADER, 24, 16)
	r.compare(unix.NFT_CMP_EQ, []byte{15: 1})
}

// protocol matches meta l4proto.
func (r *ruleset) protocol(number byte) {
	r.meta(unix.NFT_META_L4PROTO)
	r.compare(unix.NFT_CMP_EQ, []byte{number})
}

// dport matches the destination port of TCP or UDP.
func (r *ruleset) dport(port uint16) {
	r.payload(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2)
	r.compare(unix.NFT_CMP_EQ, binary.BigEndian.AppendUint16(nil, port))
}

// Bits of ct state: include/uapi/linux/netfilter/nf_conntrack_common.h,
// NF_CT_STATE_BIT of IP_CT_ESTABLISHED and IP_CT_RELATED.
const ctEstablishedOrRelated = 1<<1 | 1<<2

// tracked matches ct state established,related.
func (r *ruleset) tracked() {
	r.expression("ct", func() {
		r.u32(unix.NFTA_CT_DREG, unix.NFT_REG_1)
		r.u32(unix.NFTA_CT_KEY, unix.NFT_CT_STATE)
	})
	r.expression("bitwise", func() {
		r.u32(unix.NFTA_BITWISE_SREG, unix.NFT_REG_1)
		r.u32(unix.NFTA_BITWISE_DREG, unix.NFT_REG_1)
		r.u32(unix.NFTA_BITWISE_LEN, 4)
		r.value(unix.NFTA_BITWISE_MASK, binary.NativeEndian.AppendUint32(nil, ctEstablishedOrRelated))
		r.value(unix.NFTA_BITWISE_XOR, make([]byte, 4))
	})
	r.compare(unix.NFT_CMP_NEQ, make([]byte, 4))
}

// redirect sends the packet to the same port number's socket on loopback.
func (r *ruleset) redirect(port uint16) {
	r.expression("immediate", func() {
		r.u32(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_1)
		r.value(unix.NFTA_IMMEDIATE_DATA, binary.BigEndian.AppendUint16(nil, port))
	})
	r.expression("redir", func() { r.u32(unix.NFTA_REDIR_REG_PROTO_MIN, unix.NFT_REG_1) })
}

func (r *ruleset) reject(kind, code uint32) {
	r.expression("reject", func() {
		r.u32(unix.NFTA_REJECT_TYPE, kind)
		r.attr(unix.NFTA_REJECT_ICMP_CODE, []byte{byte(code)})
	})
}

// verdict ends the rule; code is a NF_ or NFT_ verdict.
func (r *ruleset) verdict(code int32) {
	r.expression("immediate", func() {
		r.u32(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT)
		r.nest(unix.NFTA_IMMEDIATE_DATA, func() {
			r.nest(unix.NFTA_DATA_VERDICT, func() { r.u32(unix.NFTA_VERDICT_CODE, uint32(code)) })
		})
	})
}
