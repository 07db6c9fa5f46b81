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
	f.serveRequest(r)
}

// serveRequest judges and serves a connection whose destination is known
// before its client has said anything.
func (f *flow) serveRequest(r policy.Request) {
	event := audit.Event{Kind: audit.Connect}
	c, err := f.judge(r, event)
	if err != nil {
		relay.Reset(f.client)
		return
	}
	f.tunnel(c, event, nil, nil)
}

// serveDNS answers questions on a stream.
func (f *flow) serveDNS() {
	if err := f.e.judgeDNS().ServeStream(f.client); err != nil {
		relay.Reset(f.client)
	}
}
