package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"forage/internal/audit"
	"forage/internal/egress/relay"
	"forage/internal/egress/sniff"
	"forage/internal/policy"
)

// flow is one connection from inside and what became of it.
type flow struct {
	e      *Engine
	client net.Conn
	ctx    context.Context // ends with the flow
	cancel context.CancelFunc
	counts relay.Counts
	check  func(sniff.Head) error // of ServeProxyConn; nil: anybody may ask

	// Guarded by e.mu: what it was last judged for, and what it leads to.
	request  policy.Request
	decision policy.Decision
	change   uint64 // of the policy, when it was judged
	judged   bool
	addr     netip.AddrPort // dialled; invalid before, and through a proxy
	upstream net.Conn
	killed   bool
}

// accept serves each connection to a listener with serve, which has taken
// leave of it when it returns.
func (e *Engine) accept(listener net.Listener, serve func(*flow)) {
	if !e.hold(listener) {
		return
	}
	go func() {
		defer e.running.Done()
		for wait := time.Duration(0); ; {
			conn, err := listener.Accept()
			switch {
			case err == nil:
				wait = 0
				e.start(conn, serve)
			case errors.Is(err, net.ErrClosed) || e.ctx.Err() != nil:
				return
			default: // out of descriptors, or the peer is gone
				wait = min(max(2*wait, 5*time.Millisecond), time.Second)
				if !pause(e.ctx, wait) {
					return
				}
			}
		}
	}()
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (e *Engine) start(conn net.Conn, serve func(*flow)) {
	relay.Local(conn)
	f := &flow{e: e, client: conn}
	f.ctx, f.cancel = context.WithCancel(e.ctx)
	select {
	case e.slots <- struct{}{}:
	default:
		e.refuse(f, audit.Event{Kind: audit.Connect}, "connection-limit",
			fmt.Sprintf("%d connections are open", cap(e.slots)))
		f.cancel()
		return
	}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		relay.Reset(conn)
		f.cancel()
		<-e.slots
		return
	}
	e.flows[f] = struct{}{}
	e.total.Accepted++
	e.running.Add(1)
	e.mu.Unlock()
	go func() {
		defer e.running.Done()
		defer f.end()
		serve(f)
	}()
}

// end takes leave of a flow whose connections are closed.
func (f *flow) end() {
	f.cancel()
	f.client.Close()
	e := f.e
	e.mu.Lock()
	delete(e.flows, f)
	e.total.BytesIn += f.counts.In.Load()
	e.total.BytesOut += f.counts.Out.Load()
	e.mu.Unlock()
	<-e.slots
}

// kill ends a flow from outside.
func (f *flow) kill() {
	f.e.mu.Lock()
	f.killed = true
	upstream := f.upstream
	f.e.mu.Unlock()
	f.cancel()
	relay.Reset(f.client)
	if upstream != nil {
		relay.Reset(upstream)
	}
}

// judge decides what the flow asks for and records it. event says what is
// known beside the destination. An error means that it must not go on.
func (f *flow) judge(r policy.Request, event audit.Event) (policy.Decision, error) {
	e := f.e
	r = e.pins.request(r)
	e.mu.Lock()
	p := e.policy
	d := policy.Decide(p, r)
	// From here on SetPolicy judges it again.
	f.request, f.decision, f.change, f.judged, f.addr = r, d, e.change, true, netip.AddrPort{}
	e.mu.Unlock()
	event.Host, event.Port = r.Dest(), r.Port
	if d.Verdict != policy.Allow {
		return d, f.deny(event, d)
	}
	event.Verdict, event.Rule = policy.Allow.String(), d.Rule
	return d, e.record(event)
}

// judgeAgain resets a flow that the present policy does not allow.
func (f *flow) judgeAgain() {
	e := f.e
	e.mu.Lock()
	r, addr, was := f.request, f.addr, f.decision
	alive := f.judged && !f.killed && was.Verdict == policy.Allow
	p := e.policy
	e.mu.Unlock()
	if !alive {
		return
	}
	d := policy.Decide(p, r)
	switch {
	case d.Verdict != policy.Allow:
	case addr.IsValid() && !r.Pinned && r.Host != policy.HostName:
		d = policy.CheckAddr(p, d, addr, e.locals.classify(addr.Addr()))
	case !addr.IsValid() && was.Named && !d.Named:
		// It may be on its way to a private address that was named before.
		d = policy.Decision{Rule: policy.RulePrivate, Reason: "it is no longer allowed with its port"}
	}
	if d.Verdict == policy.Allow {
		return
	}
	f.kill()
	d.Reason = "the policy was changed: " + d.Reason
	f.deny(audit.Event{Kind: audit.Connect, Host: r.Dest(), Port: r.Port}, d) // it is over, recorded or not
}

// commit notes the address that is about to be dialled, unless the policy was
// changed since it was judged.
func (f *flow) commit(addr netip.AddrPort) error {
	f.e.mu.Lock()
	defer f.e.mu.Unlock()
	if f.killed || f.change != f.e.change {
		return errChanged
	}
	f.addr = addr
	return nil
}

// attach makes upstream part of the flow, so that it ends with it.
func (f *flow) attach(upstream net.Conn) error {
	f.e.mu.Lock()
	killed := f.killed
	f.upstream = upstream
	f.e.mu.Unlock()
	if killed {
		relay.Reset(upstream)
		return errChanged
	}
	return nil
}

var errChanged = errors.New("the policy was changed meanwhile")

// deniedError is a denial that was recorded.
type deniedError struct{ policy.Decision }

func (d *deniedError) Error() string { return d.Reason }

// deny records a denial and returns it, or what kept it from being recorded.
func (f *flow) deny(event audit.Event, d policy.Decision) error {
	return f.e.deny(f.ctx, event, d)
}

func (e *Engine) deny(ctx context.Context, event audit.Event, d policy.Decision) error {
	e.mu.Lock()
	e.total.Denied++
	e.mu.Unlock()
	event.Verdict, event.Rule, event.Reason = policy.Deny.String(), d.Rule, d.Reason
	_ = e.denials.Wait(ctx) // what is ending meanwhile is recorded all the same
	if err := e.record(event); err != nil {
		return err
	}
	return &deniedError{d}
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
func (f *flow) closing(event audit.Event, r policy.Request, d policy.Decision, counts *relay.Counts, err error) {
	event.Host, event.Port = r.Dest(), r.Port
	event.Verdict, event.Rule = policy.Allow.String(), d.Rule
	event.BytesIn, event.BytesOut = counts.In.Load(), counts.Out.Load()
	event.Reason = "closed"
	if err != nil {
		event.Reason = "failed: " + err.Error()
	}
	_ = f.e.record(event)
}
