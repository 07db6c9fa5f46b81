package egress

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"forage/internal/audit"
	"forage/internal/egress/credential"
	"forage/internal/egress/meter"
	"forage/internal/egress/relay"
	"forage/internal/policy"
)

// claim is what was judged and allowed: a connection from inside, or one request
// on it. SetPolicy judges the claims that there are again.
type claim struct {
	f      *flow
	end    func() // ends what it is for, from outside
	counts *relay.Counts
	began  time.Time

	// Guarded by e.mu.
	request  policy.Request
	others   []policy.Request // that servers may take it for, judged as well
	decision policy.Decision
	change   uint64          // of the policy, when it was judged
	secrets  *credential.Set // that belong to that policy
	addr     netip.AddrPort  // what it leads to; invalid before that is known, and through a proxy
	whole    bool            // its bytes are moved without looking into them
	live     bool            // it is judged again when the policy changes
	host     *hostCounts     // what it counts for; nil where the requests on it count
}

var errChanged = errors.New("the policy was changed meanwhile")

// deniedError is a denial that was recorded.
type deniedError struct {
	policy.Decision
	way Way
}

func (d *deniedError) Error() string { return d.Reason }

// isRecorded says whether an error has its line in the audit log already.
func isRecorded(err error) bool {
	var denied *deniedError
	var limit *meter.Limited
	return errors.As(err, &denied) || errors.As(err, &limit)
}

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
func (f *flow) judge(r policy.Request, event audit.Event) (*claim, error) {
	return &f.own, f.e.judge(&f.own, r, event)
}

// judgeRequest is judge for one request on the flow.
func (f *flow) judgeRequest(r policy.Request, event audit.Event, end func()) (*claim, error) {
	c := &claim{f: f, end: end, counts: &relay.Counts{}}
	return c, f.e.judge(c, r, event)
}

func (e *Engine) judge(c *claim, r policy.Request, event audit.Event) error {
	r = e.pins.request(r)
	c.began = e.config.Now()
	d := e.admit(c, r)
	event.Host, event.Port = r.Dest(), r.Port
	if d.Verdict != policy.Allow {
		return c.f.deny(event, d)
	}
	return e.record(said(event, d))
}

// admit decides, and keeps a claim that is allowed for SetPolicy to judge it again.
func (e *Engine) admit(c *claim, r policy.Request) policy.Decision {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		p, change := e.policy, e.change
		e.mu.Unlock()
		d := policy.Decide(p, r) // may take a moment, for a long path
		e.mu.Lock()
		if change != e.change {
			continue
		}
		c.request, c.decision, c.change, c.addr = r, d, change, netip.AddrPort{}
		c.secrets = e.secrets.Load()
		if d.Verdict == policy.Allow {
			c.live, c.whole, c.host = true, false, nil
			e.claims[c] = struct{}{}
		}
		return d
	}
}

// count makes a request count for its host.
func (c *claim) count() {
	c.f.e.mu.Lock()
	defer c.f.e.mu.Unlock()
	c.countLocked()
}

// countLocked makes a claim count for its host.
func (c *claim) countLocked() {
	c.host = c.f.e.traffic.of(c.request.Dest())
	c.host.Requests++
	c.host.LastUse = c.began
}

// beWhole makes a connection one that is not looked into. An error, recorded, means that it must not go on.
func (c *claim) beWhole(event audit.Event) error {
	e := c.f.e
	r, _ := c.now()
	if err := c.f.admit(r.Host); err != nil {
		return c.f.limited(event, r, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c.whole = true
	c.countLocked()
	return nil
}

// beLookedInto takes beWhole back, for a connection that is looked into after all: what was dialled is
// closed, and the requests on it count.
func (c *claim) beLookedInto() {
	c.f.e.mu.Lock()
	defer c.f.e.mu.Unlock()
	c.whole, c.addr = false, netip.AddrPort{}
	if c.host != nil {
		c.host.Requests--
		c.host = nil
	}
}

// release ends a claim: it is not judged any more, and its bytes count for its host.
func (c *claim) release() {
	e := c.f.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if !c.live {
		return
	}
	c.live = false
	delete(e.claims, c)
	if c.host != nil {
		c.host.BytesIn += c.counts.In.Load()
		c.host.BytesOut += c.counts.Out.Load()
		c.host.LastUse = e.config.Now()
	}
}

// said is event with a decision that lets something through.
func said(event audit.Event, d policy.Decision) audit.Event {
	event.Verdict, event.Rule = policy.Allow.String(), d.Rule
	if d.Monitored {
		event.Verdict, event.Reason, event.Monitored = policy.Deny.String(), d.Reason, true
	}
	return event
}

// now is the claim as it was judged last.
func (c *claim) now() (policy.Request, policy.Decision) {
	c.f.e.mu.Lock()
	defer c.f.e.mu.Unlock()
	return c.request, c.decision
}

// credentials are those that were in force with the policy that has allowed the claim first.
func (c *claim) credentials() *credential.Set {
	c.f.e.mu.Lock()
	defer c.f.e.mu.Unlock()
	return c.secrets
}

// judgeAgain ends a claim that the present policy does not allow. What it returns, nil where there
// is nothing to tell, records that: it may have to wait, for which nothing else that has to end should.
func (c *claim) judgeAgain() (record func()) {
	e := c.f.e
	e.mu.Lock()
	r, others, addr, was, whole := c.request, c.others, c.addr, c.decision, c.whole
	alive := c.live && !c.f.killed
	p := e.policy
	e.mu.Unlock()
	if !alive {
		return nil
	}
	d := decideAgain(p, r, others)
	switch {
	case d.Verdict != policy.Allow:
	case whole && d.Inspect:
		d = policy.Decision{Rule: d.Rule, Reason: "each request has to be looked at now"}
	case otherPush(was, d):
		d = policy.Decision{Rule: d.Rule, Reason: "what may be pushed is another now"}
	case addr.IsValid() && !r.Pinned && r.Host != policy.HostName:
		d = policy.CheckAddr(p, d, addr, e.classOf(r, addr.Addr()))
	case !addr.IsValid() && was.Named && !d.Named:
		// It may be on its way to a private address that was named before.
		d = policy.Decision{Rule: policy.RulePrivate, Reason: "it is no longer allowed with its port"}
	}
	if d.Verdict == policy.Allow {
		return nil
	}
	c.end()
	d.Reason = "the policy was changed: " + d.Reason
	return func() { c.f.deny(eventOf(r), d) } // it is over, recorded or not
}

// otherPush says whether a push, which is read along by the decision that was, has to be judged
// by another rule now.
func otherPush(was, now policy.Decision) bool {
	return now.Push != nil && !policy.SamePush(was.Push, now.Push)
}

// event names what the claim is for, in the goroutine that has judged it.
func (c *claim) event() audit.Event { return eventOf(c.request) }

func eventOf(r policy.Request) audit.Event {
	event := audit.Event{Kind: audit.Connect, Host: r.Dest(), Port: r.Port}
	if r.Method != "" {
		event.Kind, event.Method, event.Path = audit.HTTP, r.Method, r.Path
	}
	return event
}

// again judges a claim by the present policy, when that was changed before
// anything was dialled; false says that it is not allowed any more.
func (c *claim) again() bool {
	e := c.f.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if !c.live || c.f.killed {
		return false
	}
	d := decideAgain(e.policy, c.request, c.others)
	if d.Verdict != policy.Allow || c.whole && d.Inspect || otherPush(c.decision, d) {
		return false // judgeAgain records it
	}
	c.decision, c.change = d, e.change
	return true
}

// commit notes the address that is about to be dialled, unless the policy was
// changed since it was judged.
func (c *claim) commit(addr netip.AddrPort) error {
	c.f.e.mu.Lock()
	defer c.f.e.mu.Unlock()
	if !c.live || c.f.killed || c.change != c.f.e.change {
		return errChanged
	}
	c.addr = addr
	return nil
}

// uses notes that a request has been given a connection that was there already.
func (c *claim) uses(addr netip.AddrPort) {
	e := c.f.e
	e.mu.Lock()
	c.addr = addr
	changed := c.change != e.change
	e.mu.Unlock()
	if !changed {
		return
	}
	if record := c.judgeAgain(); record != nil {
		record()
	}
}

// deny records a denial and returns it, or what kept it from being recorded.
func (f *flow) deny(event audit.Event, d policy.Decision) error {
	return f.e.deny(f.ctx, event, d)
}

func (e *Engine) deny(ctx context.Context, event audit.Event, d policy.Decision) error {
	r := policy.Request{Port: event.Port}
	if event.Kind == audit.HTTP {
		r.Method, r.Path = event.Method, event.Path
	}
	r.Host, r.Addr = destination(event.Host)
	way := e.way(r, d)
	e.mu.Lock()
	e.total.Denied++
	if event.Kind != audit.DNS && event.Host != "" {
		e.traffic.of(event.Host).Denied++
	}
	e.refused.add(event, d, way, e.config.Now())
	e.mu.Unlock()
	event.Verdict, event.Rule, event.Reason = policy.Deny.String(), d.Rule, d.Reason
	_ = e.denials.Wait(ctx) // what is ending meanwhile is recorded all the same
	if err := e.record(event); err != nil {
		return err
	}
	return &deniedError{d, way}
}

// refuse denies a flow for a reason that is not the policy's, and resets it.
func (e *Engine) refuse(f *flow, event audit.Event, rule, reason string) error {
	err := f.deny(event, policy.Decision{Rule: rule, Reason: reason})
	relay.Reset(f.client)
	return err
}

func (e *Engine) record(event audit.Event) error {
	event.Sandbox = e.config.Sandbox
	return e.config.Audit.Record(event)
}

// closing records how something that was allowed has ended. The decision is
// in the log already, so nothing depends on this line.
func (c *claim) closing(event audit.Event, err error) {
	r, d := c.now()
	c.release()
	event.Host, event.Port = r.Dest(), r.Port
	event = said(event, d)
	event.BytesIn, event.BytesOut = c.counts.In.Load(), c.counts.Out.Load()
	event.Millis = c.f.e.config.Now().Sub(c.began).Milliseconds()
	event.Reason = "closed"
	if err != nil {
		event.Reason = "failed: " + err.Error()
	}
	_ = c.f.e.record(event)
}
