package egress

import (
	"net/netip"
	"time"

	"forage"
	"forage/internal/audit"
	"forage/internal/egress/dns"
	"forage/internal/egress/relay"
	"forage/internal/egress/sniff"
	"forage/internal/netns"
	"forage/internal/policy"
)

// serveTransparent serves a redirected connection.
func (f *flow) serveTransparent() {
	dst, err := netns.Destination(f.client)
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
	c, err := f.judge(r, audit.Event{Kind: audit.Connect})
	if err != nil {
		relay.Reset(f.client)
		return
	}
	f.tunnel(c, nil, nil)
}

// serveDNS answers questions on a stream.
func (f *flow) serveDNS() {
	if err := f.e.judgeDNS().ServeStream(f.client); err != nil {
		relay.Reset(f.client)
	}
}

// judgeDNS answers questions by the policy as it is then. Nothing is looked up
// anywhere: what a name leads to is found when it is connected to. That a name with an address is
// allowed is recorded once, as long as the policy stays.
func (e *Engine) judgeDNS() dns.Judge {
	return func(q dns.Question) dns.Answer {
		event := audit.Event{Kind: audit.DNS, Host: q.Name, Method: q.Type}
		name, err := policy.Canonical(q.Name)
		if err != nil {
			return e.denyName(event, policy.Decision{Rule: policy.RuleMalformed, Reason: "not a host name"}, dns.Denied)
		}
		event.Host = name
		now := e.rules.Load()
		d := policy.Decide(now.policy, e.router.Complete(policy.Request{Host: name}))
		hasAddress := q.Type == "A" || q.Type == "AAAA"
		_, known := now.told.Load(name)
		if d.Verdict != policy.Allow {
			return e.denyName(event, d, dns.Denied)
		}
		answer := dns.Answer{Code: dns.Known}
		if hasAddress {
			number, ok := e.names.Number(name)
			switch {
			case !ok:
				full := policy.Decision{Rule: "names-exhausted", Reason: "no address is left for another name"}
				return e.denyName(event, full, dns.Refused)
			case q.Type == "A":
				answer.Addr = dns.Addr4(number)
			case e.hasIPv6.Load(): // else connections to it would not reach us
				answer.Addr = dns.Addr6(number)
			}
			if known {
				return answer
			}
		} else if e.denials.Wait(e.ctx) != nil { // such questions have no bound of their own: they wait like denials
			return dns.Answer{Code: dns.Failed}
		}
		if e.record(said(event, d)) != nil {
			return dns.Answer{Code: dns.Failed}
		}
		if hasAddress {
			now.told.Store(name, true)
		}
		return answer
	}
}

// denyName records that a question is denied; when it can't be, it is not
// answered at all.
func (e *Engine) denyName(event audit.Event, d policy.Decision, code dns.Code) dns.Answer {
	if _, denied := e.deny(e.ctx, event, d).(*deniedError); !denied {
		return dns.Answer{Code: dns.Failed}
	}
	return dns.Answer{Code: code}
}
