package egress

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"forage/internal/accept"
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
	check  func(sniff.Head) error // of ServeProxyConn; nil: no check

	hello *sniff.Share // what is held of its ClientHello

	own   permit      // of the connection as a whole, where there is one
	over  func()      // ends its place in the account
	limit error       // what the account had against it
	spent atomic.Bool // it met the bound on bytes
	late  atomic.Bool // it began when no bytes were left: it may be told so

	mu       sync.Mutex
	permits  map[*permit]struct{} // in force: its own, and those of requests on it
	upstream net.Conn             // what it leads to
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
		accept.Each(e.ctx.Done(), listener, func(conn net.Conn) { e.start(conn, serve) })
	}()
}

func newFlow(e *Engine, client net.Conn) *flow {
	f := &flow{e: e, client: client, permits: make(map[*permit]struct{})}
	f.counts.In.Bound, f.counts.Out.Bound = f, f
	f.own = permit{f: f, counts: &f.counts}
	f.ctx, f.cancel = context.WithCancel(e.ctx)
	return f
}

func (e *Engine) start(conn net.Conn, serve func(*flow)) {
	relay.Local(conn)
	f := newFlow(e, conn)
	select {
	case e.slots <- struct{}{}:
	default:
		e.turnAway(f)
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
		f.open()
		defer f.end()
		serve(f)
	}()
}

// turnAway refuses a connection that there is no room for. It is reset first: crowds must
// not hold open files while their refusals wait. Those whose line would have to wait are counted in
// the next one.
func (e *Engine) turnAway(f *flow) {
	defer f.cancel()
	relay.Reset(f.client)
	if e.denials.Tokens() < 1 {
		e.unsaid.Add(1)
		e.tally.Deny(audit.Event{}, Way{})
		return
	}
	reason := fmt.Sprintf("%d connections are open", cap(e.slots))
	if more := e.unsaid.Swap(0); more > 0 {
		reason = fmt.Sprintf("%s (and %d connections were refused before this one)", reason, more)
	}
	f.deny(audit.Event{Kind: audit.Connect}, policy.Decision{Rule: "connection-limit", Reason: reason})
}

// end takes leave of a flow whose connections are closed.
func (f *flow) end() {
	f.cancel()
	f.client.Close()
	e := f.e
	e.mu.Lock()
	delete(e.flows, f)
	<-e.slots // at once with its place among the flows: what is not counted any more takes no room
	e.total.BytesIn += f.counts.In.Load()
	e.total.BytesOut += f.counts.Out.Load()
	e.mu.Unlock()
	f.own.release()
	f.over()
	if f.spent.Load() {
		f.denySpent()
	}
}

// kill ends a flow from outside. Its connections are reset before those who serve it hear of the end
// and close them in order: what is cut off must not look complete.
func (f *flow) kill() {
	f.mu.Lock()
	f.killed = true
	upstream := f.upstream
	f.mu.Unlock()
	relay.Reset(f.client)
	if upstream != nil {
		relay.Reset(upstream)
	}
	f.cancel()
}

// attach makes upstream part of the flow, so that it ends with it.
func (f *flow) attach(upstream net.Conn) error {
	f.mu.Lock()
	killed := f.killed
	f.upstream = upstream
	f.mu.Unlock()
	if killed {
		relay.Reset(upstream)
		return errEnded
	}
	return nil
}
