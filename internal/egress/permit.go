package egress

import (
	"errors"
	"net/netip"
	"time"

	"forage/internal/audit"
	"forage/internal/egress/credential"
	"forage/internal/egress/relay"
	"forage/internal/policy"
)

// permit is what was judged and allowed on a connection: all of it, or one request. When the
// policy changes, permits are judged again, and a connection is reset with what
// is no longer allowed on it.
type permit struct {
	f       *flow
	request policy.Request
	others  []policy.Request // that servers may take it for, judged as well
	counts  *relay.Counts
	began   time.Time

	// Guarded by e.mu.
	decision policy.Decision // of the present policy
	secrets  *credential.Set // that belong to the policy that has allowed it first
	addr     netip.AddrPort  // what it leads to; invalid before that is known, and through a proxy
	whole    bool            // its bytes are moved without looking into them
	live     bool            // it is judged again when the policy changes
	host     *hostCounts     // what it counts for; nil where the requests on it count
}

// errEnded says that a connection was ended from outside, which is recorded.
var errEnded = errors.New("it was ended: the policy was changed, or the sandbox ends")

// present is the policy as it is now.
func (e *Engine) present() policy.Policy {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.policy
}

// decide asks the present policy, and records nothing.
func (e *Engine) decide(r policy.Request) policy.Decision { return policy.Decide(e.present(), r) }

// judge decides what the flow as a whole asks for and records it. event says what is
// known beside the destination. An error means that it must not go on.
func (f *flow) judge(r policy.Request, event audit.Event) (*permit, error) {
	f.own.request = f.e.pins.request(r)
	return &f.own, f.e.judge(&f.own, event)
}

// judgeRequest is judge for one request on the flow, which servers may take for others too.
func (f *flow) judgeRequest(r policy.Request, others []policy.Request, event audit.Event) (*permit, error) {
	c := &permit{f: f, request: f.e.pins.request(r), others: others, counts: &relay.Counts{}}
	return c, f.e.judge(c, event)
}

func (e *Engine) judge(c *permit, event audit.Event) error {
	c.began = e.config.Now()
	e.mu.Lock()
	d := c.decide(e.policy)
	c.decision, c.secrets = d, e.secrets.Load()
	if d.Verdict == policy.Allow {
		c.live = true
		e.permits[c] = struct{}{}
	}
	e.mu.Unlock()
	event.Host, event.Port = c.request.Dest(), c.request.Port
	if d.Verdict != policy.Allow {
		return c.f.deny(event, d)
	}
	return e.record(said(event, d))
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

// count makes a request count for its host.
func (c *permit) count() {
	c.f.e.mu.Lock()
	defer c.f.e.mu.Unlock()
	c.countLocked()
}

// countLocked makes a permit count for its host.
func (c *permit) countLocked() {
	c.host = c.f.e.traffic.of(c.request.Dest())
	c.host.Requests++
	c.host.LastUse = c.began
}

// beWhole makes a connection one that is not looked into. An error, recorded, means that it must
// not go on.
func (c *permit) beWhole(event audit.Event) error {
	e := c.f.e
	if err := c.f.admit(c.request.Host); err != nil {
		return c.f.limited(event, c.request, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c.whole = true
	c.countLocked()
	return nil
}

// beLookedInto takes beWhole back, for a connection that is looked into after all: what was
// dialled is closed, and the requests on it count.
func (c *permit) beLookedInto() {
	c.f.e.mu.Lock()
	defer c.f.e.mu.Unlock()
	c.whole, c.addr = false, netip.AddrPort{}
	if c.host != nil {
		c.host.Requests--
		c.host = nil
	}
}

// release ends a permit: it is not judged any more, and its bytes count for its host.
func (c *permit) release() {
	e := c.f.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if !c.live {
		return
	}
	c.live = false
	delete(e.permits, c)
	if c.host != nil {
		c.host.BytesIn += c.counts.In.Load()
		c.host.BytesOut += c.counts.Out.Load()
		c.host.LastUse = e.config.Now()
	}
}

// now is the present policy's decision about the permit.
func (c *permit) now() policy.Decision {
	c.f.e.mu.Lock()
	defer c.f.e.mu.Unlock()
	return c.decision
}

// judgeAgainLocked says why the present policy, which is new, ends a permit, if it does.
func (c *permit) judgeAgainLocked() policy.Decision {
	was, d := c.decision, c.decide(c.f.e.policy)
	switch {
	case d.Verdict != policy.Allow:
	case c.whole && d.Inspect:
		d = policy.Decision{Rule: d.Rule, Reason: "each request has to be looked at now"}
	case otherPush(was, d):
		d = policy.Decision{Rule: d.Rule, Reason: "what may be pushed is another now"}
	case c.addr.IsValid():
		d = c.checkAddrLocked(d, c.addr)
	case was.Named && !d.Named: // through a proxy it may lead to a private address that was named before
		d = policy.Decision{Rule: policy.RulePrivate, Reason: "it is no longer allowed with its port"}
	}
	if d.Verdict == policy.Allow {
		c.decision = d
	}
	return d
}

// checkAddrLocked is d, or why the permit may not lead to addr.
func (c *permit) checkAddrLocked(d policy.Decision, addr netip.AddrPort) policy.Decision {
	if c.request.Pinned || c.request.Host == policy.HostName {
		return d
	}
	return policy.CheckAddr(c.f.e.policy, d, addr, c.f.e.classOf(c.request, addr.Addr()))
}

// otherPush says whether a push, which was judged by the decision that was, has to be judged
// by another rule now.
func otherPush(was, now policy.Decision) bool {
	return now.Push != nil && !policy.SamePush(was.Push, now.Push)
}

// event names what the permit is for.
func (c *permit) event() audit.Event {
	r := c.request
	event := audit.Event{Kind: audit.Connect, Host: r.Dest(), Port: r.Port}
	if r.Method != "" {
		event.Kind, event.Method, event.Path = audit.HTTP, r.Method, r.Path
	}
	return event
}

// leadsTo notes the address that a permit is about to lead to; invalid is that of a proxy. The
// error says that the policy, which may have changed since the address was checked, has something
// against it.
func (c *permit) leadsTo(addr netip.AddrPort) error {
	e := c.f.e
	e.mu.Lock()
	if !c.live || c.f.killed {
		e.mu.Unlock()
		return errEnded
	}
	d := c.decision
	if addr.IsValid() {
		d = c.checkAddrLocked(d, addr)
	}
	c.addr = addr
	e.mu.Unlock()
	if d.Verdict != policy.Allow {
		return c.f.deny(c.event(), d)
	}
	return nil
}
