package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/deadline"
	"forage/internal/egress/relay"
	"forage/internal/policy"
)

// dialling bounds: addresses of one name that are checked, that are tried, and the
// head start of each try (RFC 8305, 5).
const (
	maxAnswers = 64
	maxTries   = 6
	headStart  = 250 * time.Millisecond
)

// dial connects to what was allowed: it finds the addresses, checks every one
// and dials one of those that were checked. Errors: *deniedError (recorded)
// where an address is not allowed, otherwise what failed.
func (c *permit) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	conn, err := c.dialRoute(ctx)
	if err == nil && c.f.ctx.Err() != nil {
		relay.Reset(conn)
		return nil, errEnded
	}
	return conn, err
}

// bound makes a context end with the flow too. That of a transport outlives its request: another
// may use the connection.
func (c *permit) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.f.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

func (c *permit) dialRoute(ctx context.Context) (net.Conn, error) {
	e := c.f.e
	r := c.request
	if e.direct(r) {
		return c.dialChecked(ctx, e.fixed(r))
	}
	if e.config.UpstreamProxy != nil {
		if err := c.leadsTo(netip.AddrPort{}); err != nil {
			return nil, err
		}
		return e.dialThroughProxy(ctx, r)
	}
	addrs, err := e.resolve(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := c.checkAll(addrs); err != nil {
		return nil, err
	}
	return c.dialChecked(ctx, addrs)
}

// direct says whether the user has named the addresses of a destination, so that
// there is nothing to look up and no proxy to ask.
func (e *Engine) direct(r policy.Request) bool { return len(e.fixed(r)) > 0 }

// fixed are the addresses of a destination that the user has named.
func (e *Engine) fixed(r policy.Request) []netip.AddrPort {
	if pinned, ok := e.pins.addrs[r.Authority()]; ok {
		return []netip.AddrPort{pinned}
	}
	if r.Host == policy.HostName {
		return []netip.AddrPort{
			netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), r.Port),
			netip.AddrPortFrom(netip.IPv6Loopback(), r.Port),
		}
	}
	if r.Addr.IsValid() && policy.Classify(r.Addr) != policy.Public { // Decide wants those by name and port
		return []netip.AddrPort{netip.AddrPortFrom(r.Addr, r.Port)}
	}
	return nil
}

// resolve finds the addresses of a destination.
func (e *Engine) resolve(ctx context.Context, r policy.Request) ([]netip.AddrPort, error) {
	if r.Addr.IsValid() {
		return []netip.AddrPort{netip.AddrPortFrom(r.Addr, r.Port)}, nil
	}
	ctx, cancel := deadline.Within(ctx, deadline.Answer, "the resolver")
	defer cancel()
	found, err := e.config.Lookup(ctx, r.Host)
	if err != nil {
		return nil, fmt.Errorf("looking up %s: %w", r.Host, err)
	}
	if len(found) == 0 || len(found) > maxAnswers {
		return nil, fmt.Errorf("looking up %s: %d addresses", r.Host, len(found))
	}
	addrs := make([]netip.AddrPort, len(found))
	for i, addr := range found {
		addrs[i] = netip.AddrPortFrom(addr.Unmap(), r.Port)
	}
	return addrs, nil
}

// classOf is the class of an address that r leads to: public, where the user has said that the
// name leads to such addresses.
func (e *Engine) classOf(r policy.Request, addr netip.Addr) policy.Class {
	class := e.locals.classify(addr)
	if class.Mirror() && slices.ContainsFunc(e.config.PrivateHosts, func(host string) bool {
		suffix, below := strings.CutPrefix(host, "*")
		return host == r.Host || below && strings.HasSuffix(r.Host, suffix)
	}) {
		return policy.Public
	}
	return class
}

// checkAll checks every address of an answer. One that is not allowed spoils
// the whole answer: honest ones don't mix private addresses with public ones.
func (c *permit) checkAll(addrs []netip.AddrPort) error {
	for _, addr := range addrs {
		c.f.e.mu.Lock()
		verdict := c.checkAddrLocked(c.decision, addr)
		c.f.e.mu.Unlock()
		if verdict.Verdict == policy.Allow {
			continue
		}
		if host := c.request.Host; host != "" {
			verdict.Reason = fmt.Sprintf("%s leads to %s", host, verdict.Reason)
		}
		err := c.f.deny(c.event(), verdict)
		if denied, ok := err.(*deniedError); ok { // what the host's resolver knows is not the sandbox's to know
			denied.Reason = "it leads to an address that has to be allowed by itself"
		}
		return err
	}
	return nil
}

// dialChecked connects to one of addrs, of which the families take turns.
func (c *permit) dialChecked(ctx context.Context, addrs []netip.AddrPort) (net.Conn, error) {
	addrs = takeTurns(addrs)
	if err := c.leadsTo(addrs[0]); err != nil {
		return nil, err
	}
	ctx, cancel := deadline.Within(ctx, deadline.Answer, "the server")
	defer cancel()
	got := c.f.e.race(ctx, addrs)
	if got.err != nil || got.addr == addrs[0] {
		return got.conn, got.err
	}
	if err := c.leadsTo(got.addr); err != nil {
		relay.Reset(got.conn)
		return nil, err
	}
	return got.conn, nil
}

type dialled struct {
	conn net.Conn
	addr netip.AddrPort
	err  error
}

// race dials addrs: the first at once, the others when it has failed or had its head start. The
// first that is connected is taken.
func (e *Engine) race(ctx context.Context, addrs []netip.AddrPort) dialled {
	if len(addrs) == 1 {
		conn, err := e.config.Dial(ctx, addrs[0])
		return dialled{conn, addrs[0], err}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rest := make(chan dialled, 1)
	others := func() {
		got := e.race(ctx, addrs[1:])
		rest <- got
		if got.err == nil {
			cancel() // the first one's dialling
		}
	}
	later := time.AfterFunc(headStart, others)
	conn, err := e.config.Dial(ctx, addrs[0])
	waits := later.Stop()
	switch {
	case err == nil && waits:
		return dialled{conn, addrs[0], nil}
	case err == nil:
		e.running.Go(func() {
			if late := <-rest; late.err == nil {
				relay.Reset(late.conn)
			}
		})
		return dialled{conn, addrs[0], nil}
	case waits:
		others()
	}
	got := <-rest
	if got.err != nil {
		got.err = errors.Join(err, got.err)
	}
	return got
}

// takeTurns orders addresses so that the families alternate, beginning with the first's, and cuts
// them to as many as are tried.
func takeTurns(addrs []netip.AddrPort) []netip.AddrPort {
	var families [2][]netip.AddrPort
	for _, addr := range addrs {
		i := 0
		if addr.Addr().Is4() != addrs[0].Addr().Is4() {
			i = 1
		}
		families[i] = append(families[i], addr)
	}
	ordered := make([]netip.AddrPort, 0, len(addrs))
	for i := range max(len(families[0]), len(families[1])) {
		for _, family := range families {
			if i < len(family) {
				ordered = append(ordered, family[i])
			}
		}
	}
	return ordered[:min(len(ordered), maxTries)]
}

// lookupHost asks the host's resolver. A name with a dot is taken as it is:
// a search list would make another name of it.
func lookupHost(ctx context.Context, name string) ([]netip.Addr, error) {
	if strings.Contains(name, ".") {
		name += "."
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

func dialTCP(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{Timeout: deadline.Answer}
	conn, err := d.DialContext(ctx, "tcp", addr.String())
	if err == nil && addr.Addr().IsLoopback() {
		relay.Local(conn)
	}
	return conn, err
}

// hostNetworks are the networks of the host's interfaces, its own addresses included.
func hostNetworks() ([]netip.Prefix, error) {
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

// ConnectionsFor is how many connections each of so many engines in this process may have, so
// that none takes the open files of another. So many of those that the process may have open are
// for something else.
func ConnectionsFor(engines, elsewhere int) int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 64
	}
	files := int(min(limit.Cur, 1<<20)) - elsewhere
	return min(max(files/filesPerFlow/engines, 16), maxConnections)
}

// localNetworks remembers the host's networks for a moment: interfaces come
// and go, but not between the connections of one page.
type localNetworks struct {
	read func() ([]netip.Prefix, error)

	mu    sync.Mutex
	until time.Time
	found []netip.Prefix
	err   error
}

const localsKept = 2 * time.Second

// classify is policy.Classify, knowing the host's own networks. When they
// can't be read, nothing is public.
func (l *localNetworks) classify(addr netip.Addr) policy.Class {
	class := policy.Classify(addr)
	if class != policy.Public {
		return class
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.After(l.until) {
		l.found, l.err = l.read()
		l.until = now.Add(localsKept)
	}
	if l.err != nil {
		return policy.OnLink
	}
	for _, network := range l.found {
		if network.Contains(addr) {
			return policy.OnLink
		}
	}
	return class
}
