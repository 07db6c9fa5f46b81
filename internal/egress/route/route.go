// Package route connects to destinations that were judged: it finds their addresses, has them
// checked, and dials. It holds no policy: its caller says which address is allowed.
package route

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"forage/internal/deadline"
	"forage/internal/egress/relay"
	"forage/internal/policy"
)

// Router knows the ways that the configuration gives.
type Router struct {
	// Proxy, if set, is the http:// proxy that dials go through, with the name, so that the check
	// of addresses is the proxy's. Pinned destinations, the host's own services and private
	// literal addresses are dialled directly.
	Proxy *url.URL
	// PrivateHosts are names, or "*.suffix", that may lead to addresses that are not public (see
	// policy.Class.Mirror).
	PrivateHosts []string
	// Lookup resolves a name on the host.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	// Connect connects to an address; Router bounds how long that takes.
	Connect func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
	// Networks are the networks that the host itself is in, whose public addresses are not the
	// internet's to the sandbox.
	Networks func() ([]netip.Prefix, error)

	pins  map[string]netip.AddrPort // by policy.Request.Authority
	names map[string]bool           // the names among them

	mu    sync.Mutex
	until time.Time // the networks are read again
	found []netip.Prefix
	err   error
}

// Dialling bounds: addresses of one name that are checked, that are tried, and the head start of
// each try (RFC 8305, 5).
const (
	maxAnswers = 64
	maxTries   = 6
	headStart  = 250 * time.Millisecond
)

// networksKept is how long the host's networks are remembered: interfaces come and go, but not
// between the connections of one page.
const networksKept = 2 * time.Second

// Pin makes destinations ("git.internal:443") lead to addresses.
func (r *Router) Pin(resolve map[string]netip.AddrPort) error {
	r.pins, r.names = make(map[string]netip.AddrPort), make(map[string]bool)
	for text, addr := range resolve {
		to, err := policy.ParseAuthority(text, 0)
		if err != nil {
			return fmt.Errorf("network.resolve %q: expected name:port: %w", text, err)
		}
		if !addr.IsValid() || addr.Port() == 0 {
			return fmt.Errorf("network.resolve %q: expected address:port to dial", text)
		}
		r.pins[to.Authority()] = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
		r.names[to.Host] = true
	}
	return nil
}

// Complete is a request with what the configuration knows of it.
func (r *Router) Complete(to policy.Request) policy.Request {
	if to.Port == 0 {
		to.Pinned = r.names[to.Host]
	} else {
		_, to.Pinned = r.pins[to.Authority()]
	}
	return to
}

// Direct says whether the user has named the addresses of a destination, so that there is nothing
// to look up and no proxy to ask.
func (r *Router) Direct(to policy.Request) bool { return len(r.fixed(to)) > 0 }

// fixed are the addresses of a destination that the user has named.
func (r *Router) fixed(to policy.Request) []netip.AddrPort {
	if pinned, ok := r.pins[to.Authority()]; ok {
		return []netip.AddrPort{pinned}
	}
	if to.Host == policy.HostName {
		return []netip.AddrPort{
			netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), to.Port),
			netip.AddrPortFrom(netip.IPv6Loopback(), to.Port),
		}
	}
	if to.Addr.IsValid() && policy.Classify(to.Addr) != policy.Public { // Decide wants those by name and port
		return []netip.AddrPort{netip.AddrPortFrom(to.Addr, to.Port)}
	}
	return nil
}

// Dial connects to a destination. check is asked about every address before one is dialled, and
// once about the invalid one where the proxy leads there; its error is returned as it is. It
// returns the address that was taken, which is invalid through a proxy.
func (r *Router) Dial(ctx context.Context, to policy.Request, check func(netip.AddrPort) error) (net.Conn, netip.AddrPort, error) {
	addrs := r.fixed(to)
	if len(addrs) == 0 && r.Proxy != nil {
		if err := check(netip.AddrPort{}); err != nil {
			return nil, netip.AddrPort{}, err
		}
		conn, err := r.dialThroughProxy(ctx, to)
		return conn, netip.AddrPort{}, err
	}
	if len(addrs) == 0 {
		found, err := r.resolve(ctx, to)
		if err != nil {
			return nil, netip.AddrPort{}, err
		}
		addrs = found
	}
	for _, addr := range addrs { // one that is not allowed spoils all: honest answers don't mix private addresses with public ones
		if err := check(addr); err != nil {
			return nil, netip.AddrPort{}, err
		}
	}
	ctx, cancel := deadline.Within(ctx, deadline.Answer, "the server")
	defer cancel()
	got := r.race(ctx, takeTurns(addrs))
	return got.conn, got.addr, got.err
}

// resolve finds the addresses of a destination.
func (r *Router) resolve(ctx context.Context, to policy.Request) ([]netip.AddrPort, error) {
	if to.Addr.IsValid() {
		return []netip.AddrPort{netip.AddrPortFrom(to.Addr, to.Port)}, nil
	}
	ctx, cancel := deadline.Within(ctx, deadline.Answer, "the resolver")
	defer cancel()
	found, err := r.Lookup(ctx, to.Host)
	if err != nil {
		return nil, fmt.Errorf("looking up %s: %w", to.Host, err)
	}
	if len(found) == 0 || len(found) > maxAnswers {
		return nil, fmt.Errorf("looking up %s: %d addresses", to.Host, len(found))
	}
	addrs := make([]netip.AddrPort, len(found))
	for i, addr := range found {
		addrs[i] = netip.AddrPortFrom(addr.Unmap(), to.Port)
	}
	return addrs, nil
}

// takeTurns orders addresses so that the families alternate, beginning with the first's, and cuts
// them to as many as are tried.
func takeTurns(addrs []netip.AddrPort) []netip.AddrPort {
	var ordered, others []netip.AddrPort
	for _, addr := range addrs {
		if addr.Addr().Is4() == addrs[0].Addr().Is4() {
			ordered = append(ordered, addr)
		} else {
			others = append(others, addr)
		}
	}
	for i, addr := range others {
		ordered = slices.Insert(ordered, min(2*i+1, len(ordered)), addr)
	}
	return ordered[:min(len(ordered), maxTries)]
}

type dialled struct {
	conn net.Conn
	addr netip.AddrPort
	err  error
}

// race dials the first address at once, and each other when all before it have failed or have had
// their head start. The first that is connected is taken, the rest are reset.
func (r *Router) race(ctx context.Context, addrs []netip.AddrPort) dialled {
	var errs []error
	for len(addrs) == 1 || addrs[0].Addr().IsLoopback() { // this machine answers at once
		conn, err := r.Connect(ctx, addrs[0])
		if err == nil {
			return dialled{conn, addrs[0], nil}
		}
		errs = append(errs, err)
		if addrs = addrs[1:]; len(addrs) == 0 {
			return dialled{err: errors.Join(errs...)}
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan dialled)
	pending := 0
	defer func() {
		cancel()
		for ; pending > 0; pending-- {
			if late := <-results; late.err == nil {
				relay.Reset(late.conn)
			}
		}
	}()
	next := time.NewTimer(headStart)
	defer next.Stop()
	start := func() {
		if len(addrs) > 0 {
			addr := addrs[0]
			addrs, pending = addrs[1:], pending+1
			go func() {
				conn, err := r.Connect(ctx, addr)
				results <- dialled{conn, addr, err}
			}()
			next.Reset(headStart)
		}
	}
	for start(); pending > 0; {
		select {
		case <-next.C:
			start()
		case got := <-results:
			if pending--; got.err == nil {
				return got
			}
			if errs = append(errs, got.err); pending == 0 {
				start()
			}
		}
	}
	return dialled{err: errors.Join(errs...)}
}

// Class is the class of an address that a destination leads to: public, where the user has said
// that the name leads to such addresses. When the host's networks can't be read, nothing is public.
func (r *Router) Class(to policy.Request, addr netip.Addr) policy.Class {
	class := policy.Classify(addr)
	if class == policy.Public && r.isLocal(addr) {
		class = policy.OnLink
	}
	if class.Mirror() && slices.ContainsFunc(r.PrivateHosts, func(host string) bool {
		suffix, below := strings.CutPrefix(host, "*")
		return host == to.Host || below && strings.HasSuffix(to.Host, suffix)
	}) {
		return policy.Public
	}
	return class
}

func (r *Router) isLocal(addr netip.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.After(r.until) {
		r.found, r.err = r.Networks()
		r.until = now.Add(networksKept)
	}
	return r.err != nil || slices.ContainsFunc(r.found, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// Lookup asks the host's resolver. A name with a dot is taken as it is: a search list would make
// another name of it.
func Lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if strings.Contains(name, ".") {
		name += "."
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// Connect dials over TCP.
func Connect(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{Timeout: deadline.Answer}
	conn, err := d.DialContext(ctx, "tcp", addr.String())
	if err == nil && addr.Addr().IsLoopback() {
		relay.Local(conn)
	}
	return conn, err
}

// HostNetworks are the networks of the host's interfaces, its own addresses included.
func HostNetworks() ([]netip.Prefix, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("reading the host's networks: %w", err)
	}
	var found []netip.Prefix
	for _, addr := range addrs {
		if prefix, err := netip.ParsePrefix(addr.String()); err == nil && prefix.Bits() > 0 {
			found = append(found, prefix.Masked())
		}
	}
	return found, nil
}
