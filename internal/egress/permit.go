package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"forage/internal/audit"
	"forage/internal/egress/credential"
	"forage/internal/egress/relay"
	"forage/internal/egress/tally"
	"forage/internal/policy"
)

// permit is what was judged and allowed on a connection: all of it, or one request. When the
// policy changes, permits are judged again, and a connection is reset with what
// is no longer allowed on it.
type permit struct {
	f       *flow
	request policy.Request
	event   audit.Event      // what the audit log says of it
	others  []policy.Request // that servers may take it for, judged as well
	counts  *relay.Counts
	began   time.Time
	secrets *credential.Set // that belong to the policy that has allowed it
	use     *tally.Use      // what it counts for; nil where the requests on it count

	// Guarded by f.mu.
	decision policy.Decision // of the present policy
	addr     netip.AddrPort  // what it leads to; invalid before that is known, and through a proxy
	whole    bool            // its bytes are moved without looking into them
}

// errEnded says that a connection was ended from outside, which is recorded.
var errEnded = errors.New("it was ended: the policy was changed, or the sandbox ends")

// judge decides what the flow as a whole asks for and records it. event says what is
// known beside the destination. An error means that it must not go on.
func (f *flow) judge(r policy.Request, event audit.Event) (*permit, error) {
	f.own.request, f.own.event = f.e.router.Complete(r), event
	return &f.own, f.own.judge(nil)
}

// judgeRequest is judge for one request on the flow, which servers may take for others too. bounds
// is asked when the policy allows it.
func (f *flow) judgeRequest(r policy.Request, others []policy.Request, event audit.Event, bounds func() error) (*permit, error) {
	c := &permit{f: f, request: f.e.router.Complete(r), others: others, event: event, counts: &relay.Counts{}}
	return c, c.judge(bounds)
}

// judge decides by the rules in force. They are read while the flow is locked: a change that comes
// later finds the permit and judges it again. What took effect is recorded, once: the policy's
// decision, or what the bounds have against it.
func (c *permit) judge(bounds func() error) error {
	f := c.f
	c.event.Host, c.event.Port = c.request.Dest(), c.request.Port
	c.began = f.e.config.Now()
	f.mu.Lock()
	now := f.e.rules.Load()
	d := c.decide(now.policy)
	c.decision, c.secrets = d, now.secrets
	if d.Verdict == policy.Allow {
		f.permits[c] = struct{}{}
	}
	f.mu.Unlock()
	if d.Verdict != policy.Allow {
		return f.deny(c.event, d)
	}
	if bounds != nil {
		if err := bounds(); err != nil {
			return err
		}
	}
	return f.e.record(said(c.event, d))
}

// decide is what p says of a permit in all ways to read it.
func (c *permit) decide(p policy.Policy) policy.Decision {
	d := policy.Decide(p, c.request)
	if len(c.others) > maxReadings {
		return policy.Decision{Rule: policy.RuleMalformed, Reason: "servers may read the request in too many ways"}
	}
	for i := 0; i < len(c.others) && d.Verdict == policy.Allow; i++ {
		switch other := judgeReading(p, c.request, d, c.others[i]); {
		case other.Verdict != policy.Allow:
			return other
		case other.Monitored && !d.Monitored:
			d.Monitored, d.Rule, d.Reason = true, other.Rule, other.Reason
		}
	}
	return d
}

// count makes a permit count for its host.
func (c *permit) count() { c.use = c.f.e.tally.Begin(c.request.Dest(), c.counts) }

// beWhole makes a connection one that is not looked into. An error, recorded, means that it must
// not go on.
func (c *permit) beWhole() error {
	if err := c.f.admit(c.request.Host); err != nil {
		return c.f.limited(c.event, err)
	}
	c.f.mu.Lock()
	c.whole = true
	c.f.mu.Unlock()
	c.count()
	return nil
}

// beLookedInto takes beWhole back, for a connection that is looked into after all: what was
// dialled is closed, and the requests on it count.
func (c *permit) beLookedInto() {
	c.f.mu.Lock()
	c.whole, c.addr = false, netip.AddrPort{}
	c.f.mu.Unlock()
	c.use.Cancel()
	c.use = nil
}

// release ends a permit: it is not judged any more, and its bytes count for its host.
func (c *permit) release() {
	c.f.mu.Lock()
	delete(c.f.permits, c)
	c.f.mu.Unlock()
	c.use.End()
}

// now is the present policy's decision about the permit.
func (c *permit) now() policy.Decision {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	return c.decision
}

// judgeAgain adds those of a flow's permits that the policy p, which is new, ends, with the reason.
func (f *flow) judgeAgain(p policy.Policy, ended map[*permit]policy.Decision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.permits {
		was, d := c.decision, c.decide(p)
		switch {
		case d.Verdict != policy.Allow:
		case c.whole && d.Inspect:
			d = policy.Decision{Rule: d.Rule, Reason: "each request has to be looked at now"}
		case d.Push != nil && !policy.SamePush(was.Push, d.Push):
			d = policy.Decision{Rule: d.Rule, Reason: "what may be pushed is another now"}
		case c.addr.IsValid():
			d = c.checkAddr(p, d, c.addr)
		case was.Named && !d.Named: // through a proxy it may lead to a private address that was named before
			d = policy.Decision{Rule: policy.RulePrivate, Reason: "it is no longer allowed with its port"}
		}
		if d.Verdict != policy.Allow {
			ended[c] = d
			continue
		}
		c.decision = d
	}
}

// checkAddr is d, or why the permit may not lead to addr under the policy p.
func (c *permit) checkAddr(p policy.Policy, d policy.Decision, addr netip.AddrPort) policy.Decision {
	if c.request.Pinned || c.request.Host == policy.HostName {
		return d
	}
	return policy.CheckAddr(p, d, addr, c.f.e.router.Class(c.request, addr.Addr()))
}

// dial connects to what was allowed. Errors: *deniedError (recorded) where an address is not
// allowed, otherwise what failed.
func (c *permit) dial(ctx context.Context) (net.Conn, netip.AddrPort, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	conn, addr, err := c.f.e.router.Dial(ctx, c.request, func(addr netip.AddrPort) error { return c.leadsTo(addr, false) })
	if err != nil {
		return nil, addr, err
	}
	if err := c.leadsTo(addr, true); err != nil { // the policy may have changed meanwhile
		relay.Reset(conn)
		return nil, addr, err
	}
	return conn, addr, nil
}

// bound makes a context end with the flow too. That of a transport outlives its request: another
// may use the connection.
func (c *permit) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.f.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// leadsTo says whether a permit may lead to an address, and notes that it does. The invalid address
// is that of a proxy.
func (c *permit) leadsTo(addr netip.AddrPort, does bool) error {
	f := c.f
	f.mu.Lock()
	if _, live := f.permits[c]; !live || f.killed {
		f.mu.Unlock()
		return errEnded
	}
	d := c.decision
	if addr.IsValid() {
		d = c.checkAddr(f.e.rules.Load().policy, d, addr)
	}
	if does {
		c.addr = addr
	}
	f.mu.Unlock()
	if d.Verdict == policy.Allow {
		return nil
	}
	if c.request.Host == "" {
		return f.deny(c.event, d)
	}
	d.Reason = fmt.Sprintf("%s leads to %s", c.request.Host, d.Reason)
	err := f.deny(c.event, d)
	if denied, ok := err.(*deniedError); ok { // what the host's resolver knows is not the sandbox's to know
		denied.Reason = "it leads to an address that has to be allowed by itself"
	}
	return err
}
