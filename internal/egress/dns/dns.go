// Package dns speaks the part of the DNS that a sandbox needs: it answers
// questions about names with synthetic addresses, over UDP and TCP. It resolves
// nothing and forwards nothing; whether a name may be known is decided by the Judge
// it is given.
//
// References: RFC 1035, RFC 6891 (EDNS), RFC 7766 (TCP), RFC 8482 (ANY).
package dns

import (
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// Sizes of messages, in bytes. Every answer fits into 512.
const (
	maxQuery    = 4096
	ednsPayload = 1232
)

// ttl of an answer, in seconds. A name keeps its address, so this is only how
// soon a change of the policy shows.
const ttl = 60

// Question is what was asked.
type Question struct {
	Name string // as asked, without its last dot; any bytes
	Type string // "A", "AAAA", "HTTPS", ..., or "TYPE4711"
}

// Answer to a question. The zero value refuses it.
type Answer struct {
	Code Code
	// Addr answers an A or AAAA question; the zero value is NODATA.
	Addr netip.Addr
}

// Code is what becomes of a question.
type Code uint8

// The codes, with the RCODE of each.
const (
	Refused Code = iota // REFUSED
	Denied              // NXDOMAIN: no such name
	Failed              // SERVFAIL
	Known               // NOERROR, with an address or none
)

func (c Code) rcode() dnsmessage.RCode {
	switch c {
	case Known:
		return dnsmessage.RCodeSuccess
	case Denied:
		return dnsmessage.RCodeNameError
	case Failed:
		return dnsmessage.RCodeServerFailure
	default:
		return dnsmessage.RCodeRefused
	}
}

// Judge answers one question. It is called for every well-formed question of
// class IN, by several goroutines.
type Judge func(Question) Answer

// query is what was understood of a message.
type query struct {
	header   dnsmessage.Header
	question dnsmessage.Question
	asked    bool // question is set
	edns     bool
	rcode    dnsmessage.RCode // not success: what is wrong with it
}

// Reply answers one message. It is nil for what deserves no answer: answers,
// and what has no header.
func (j Judge) Reply(message []byte) []byte {
	q, ok := parse(message)
	if !ok {
		return nil
	}
	if q.rcode != dnsmessage.RCodeSuccess {
		return q.reply(q.rcode, netip.Addr{})
	}
	if q.question.Class != dnsmessage.ClassINET {
		return q.reply(dnsmessage.RCodeRefused, netip.Addr{})
	}
	answer := j(Question{
		Name: strings.TrimSuffix(q.question.Name.String(), "."),
		Type: typeName(q.question.Type),
	})
	return q.reply(answer.Code.rcode(), answer.Addr)
}

func parse(message []byte) (q query, ok bool) {
	var p dnsmessage.Parser
	var err error
	if q.header, err = p.Start(message); err != nil || q.header.Response {
		return query{}, false
	}
	if q.header.OpCode != 0 {
		q.rcode = dnsmessage.RCodeNotImplemented
		return q, true
	}
	q.rcode = dnsmessage.RCodeFormatError
	if q.question, err = p.Question(); err != nil {
		return q, true
	}
	q.asked = true
	if _, err := p.Question(); err != dnsmessage.ErrSectionDone {
		q.asked = false
		return q, true
	}
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return q, true
	}
	for {
		h, err := p.AdditionalHeader()
		if err == dnsmessage.ErrSectionDone {
			q.rcode = dnsmessage.RCodeSuccess
			return q, true
		}
		if err != nil || p.SkipAdditional() != nil {
			return q, true
		}
		q.edns = q.edns || h.Type == dnsmessage.TypeOPT
	}
}

// reply builds the answer to q: its question again, and addr if that is of the type asked for.
func (q query) reply(rcode dnsmessage.RCode, addr netip.Addr) []byte {
	b := dnsmessage.NewBuilder(make([]byte, 0, 512), dnsmessage.Header{
		ID: q.header.ID, Response: true, OpCode: q.header.OpCode, RCode: rcode,
		RecursionDesired: q.header.RecursionDesired, RecursionAvailable: true,
	})
	b.EnableCompression()
	err := b.StartQuestions()
	if err == nil && q.asked {
		err = b.Question(q.question)
	}
	if err == nil && rcode == dnsmessage.RCodeSuccess {
		err = q.addAddress(&b, addr)
	}
	if err == nil && q.edns {
		err = addEDNS(&b)
	}
	if err != nil {
		return nil
	}
	out, err := b.Finish()
	if err != nil {
		return nil
	}
	return out
}

func (q query) addAddress(b *dnsmessage.Builder, addr netip.Addr) error {
	if err := b.StartAnswers(); err != nil {
		return err
	}
	h := dnsmessage.ResourceHeader{Name: q.question.Name, Class: dnsmessage.ClassINET, TTL: ttl}
	switch {
	case addr.Is4() && q.question.Type == dnsmessage.TypeA:
		return b.AResource(h, dnsmessage.AResource{A: addr.As4()})
	case addr.Is6() && q.question.Type == dnsmessage.TypeAAAA:
		return b.AAAAResource(h, dnsmessage.AAAAResource{AAAA: addr.As16()})
	}
	return nil
}

func addEDNS(b *dnsmessage.Builder) error {
	var h dnsmessage.ResourceHeader
	if err := b.StartAdditionals(); err != nil {
		return err
	}
	if err := h.SetEDNS0(ednsPayload, dnsmessage.RCodeSuccess, false); err != nil {
		return err
	}
	return b.OPTResource(h, dnsmessage.OPTResource{})
}
