// Package egress is the only way out of a sandbox. Every byte that leaves passes through one
// Engine on the host: it answers DNS with synthetic addresses, judges each connection by name,
// records the decision and only then resolves, checks and dials. It holds no policy of its own.
//
// The way of a connection. Each step knows those before it, and none after it:
//
//	accept     Engine: a connection from inside becomes a flow (flow.go, transparent.go)
//	identify   whom it means: by its address (transparent.go), the explicit proxy (connect.go),
//	           TLS (tunnel.go), HTTP (requests.go)
//	judge      the policy decides; what is allowed is a permit of the flow (permit.go, readings.go)
//	connect    package route looks names up, has addresses checked and dials
//	relay      package relay moves bytes, unread (tunnel.go)
//	intercept  or TLS ends here in a session (session.go, http.go); each request is an exchange, which
//	           is judged (requests.go), sent on with its secret (forward.go, roundtrip.go,
//	           transports.go) and answered (answers.go)
//	account    one line for what was decided and one for the end (record.go); package tally counts by
//	           host, package meter bounds (limits.go)
//
// What a client says first is read only where a protocol says that the client speaks first (TLS
// on 443, HTTP on 80), and has to agree with the name that was judged. A connection is
// intercepted where rules are about requests, a secret is bound or a budget reads answers.
//
// A permit belongs to a connection: it is for all of it, or for one request on it. When the policy
// changes, each is judged again, and a connection with one that is no longer allowed is reset. The
// others are not touched.
//
// In the audit log a decision is one line, written before anything is done about it; what can't
// be recorded is denied. What was allowed has a second line at its end, with its bytes (of an
// HTTP request, those of the bodies) and how it ended. A name that is asked for again and again
// in the DNS is recorded when it is first allowed, and after each change of the policy. Nothing
// that is written has a secret in it.
//
// What is not closed here: names inside an encrypted connection that is not looked into, and
// inside what is spoken on other ports than 80 and 443 (fronting, within the servers that an
// allowed name leads to); and data carried in the labels of names below an allowed wildcard. A
// ClientHello with an encrypted one inside is refused unless everything public is allowed, which
// refuses browsers that send one for show until that is turned off in them.
package egress

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"forage/internal/egress/credential"
	"forage/internal/egress/dns"
	"forage/internal/egress/route"
	"forage/internal/egress/sniff"
	"forage/internal/egress/tally"
	"forage/internal/netns"
	"forage/internal/policy"
)

// Engine serves one sandbox's way out.
type Engine struct {
	config  Config
	router  route.Router
	tally   *tally.Tally
	names   dns.Names
	heads   *sniff.Budget
	denials *rate.Limiter
	unsaid  atomic.Int64 // denials that have no line in the audit log
	slots   chan struct{}
	http    *httpSide
	host    *http.Transport // of the host's own requests
	hasIPv6 atomic.Bool     // connections over IPv6 reach us

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	changing sync.Mutex            // one change at a time
	rules    atomic.Pointer[rules] // in force

	mu        sync.Mutex
	flows     map[*flow]struct{}
	listeners []interface{ Close() error }
	closed    bool
	total     Counters // of flows that have ended
}

// rules are a policy and the secrets that belong to it. A change makes another value.
type rules struct {
	policy  policy.Policy
	secrets *credential.Set
	told    *sync.Map // names in the DNS that are recorded as allowed since the last change
}

// Counters say what an engine has done so far.
type Counters struct {
	Open     int   `json:"open"`     // connections now
	Accepted int64 `json:"accepted"` // connections from inside
	Denied   int64 `json:"denied"`   // denials, of connections, requests and names
	BytesIn  int64 `json:"bytesIn"`  // towards the sandbox
	BytesOut int64 `json:"bytesOut"` // out of the sandbox
}

// New makes an engine that serves nothing yet.
func New(config Config) (*Engine, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{
		config:  config,
		router:  route.Router{Proxy: config.UpstreamProxy, PrivateHosts: config.PrivateHosts, Lookup: config.Lookup, Connect: config.Dial, Networks: config.HostNetworks},
		tally:   tally.New(config.Now),
		slots:   make(chan struct{}, config.MaxConnections),
		denials: rate.NewLimiter(denialsPerSecond, denialBurst),
		heads:   sniff.NewBudget(headsBudget),
		flows:   make(map[*flow]struct{}),
	}
	if err := e.router.Pin(config.Resolve); err != nil {
		return nil, err
	}
	e.rules.Store(&rules{config.Policy, config.Credentials, new(sync.Map)})
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.http = newHTTPSide(e)
	e.host = e.http.newTransport()
	e.host.Proxy, e.host.DialContext = nil, e.dialForHost
	return e, nil
}

// Serve begins to serve the listeners, and returns. Close closes them.
func (e *Engine) Serve(l netns.Listeners) {
	for _, listener := range l.Transparent {
		if addr, ok := listener.Addr().(*net.TCPAddr); ok && addr.IP.To4() == nil {
			e.hasIPv6.Store(true)
		}
		e.accept(listener, (*flow).serveTransparent)
	}
	for _, listener := range l.Forwarded {
		e.hasIPv6.Store(true)
		e.accept(listener, (*flow).serveForwarded)
	}
	for _, listener := range l.Proxy {
		e.accept(listener, (*flow).serveProxy)
	}
	for _, listener := range l.DNSStream {
		e.accept(listener, (*flow).serveDNS)
	}
	for _, conn := range l.DNSPacket {
		if e.hold(conn) {
			go func() {
				defer e.running.Done()
				e.judgeDNS().ServePacket(conn)
			}()
		}
	}
}

// hold keeps a listener to be closed by Close, and counts what serves it as
// running; false says that the engine is closed already.
func (e *Engine) hold(listener interface{ Close() error }) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		listener.Close()
		return false
	}
	e.listeners = append(e.listeners, listener)
	e.running.Add(1)
	return true
}

// enter counts something that runs for the engine outside of a flow's own
// goroutine; false says that the engine is closed. running.Done is its end.
func (e *Engine) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.running.Add(1)
	}
	return !e.closed
}

// SetPolicy changes the policy. Connections that it does not allow any more, or a request on
// them, are reset, whatever they are doing; the others go on.
func (e *Engine) SetPolicy(p policy.Policy) {
	e.change(func(now *rules) { now.policy, now.told = p, new(sync.Map) })
}

// Set is SetPolicy and SetCredentials at once: no request that one policy has allowed is given
// the secret that belongs to the other.
func (e *Engine) Set(p policy.Policy, s *credential.Set) {
	e.change(func(now *rules) {
		s.Remember(now.secrets) // servers may still tell what was rotated
		*now = rules{p, s, new(sync.Map)}
	})
}

// SetCredentials changes what is put into requests from the next one on. Connections that are
// not looked into stay so. Where the policy changes with it, it is Set.
func (e *Engine) SetCredentials(s *credential.Set) {
	e.changing.Lock()
	defer e.changing.Unlock()
	next := *e.rules.Load()
	s.Remember(next.secrets)
	next.secrets = s
	e.rules.Store(&next)
}

// change puts other rules in force, and then judges again what is under way. What is judged
// meanwhile goes by the new rules, or is judged again: see permit.judge.
func (e *Engine) change(to func(*rules)) {
	e.changing.Lock()
	next := *e.rules.Load()
	to(&next)
	e.rules.Store(&next)
	e.tally.Forget(func(one tally.Refused) bool {
		r := policy.Request{Port: one.Port, Method: one.Method, Path: one.Path}
		r.Host, r.Addr = destination(one.Host)
		d := e.decide(e.router.Complete(r))
		return d.Verdict == policy.Allow && (d.Named || one.Rule != policy.RulePrivate)
	})
	ended := make(map[*permit]policy.Decision)
	for _, f := range e.open() {
		f.judgeAgain(next.policy, ended)
	}
	e.changing.Unlock()
	e.http.renew()
	for c := range ended {
		c.f.kill()
	}
	for c, d := range ended { // as slowly as denials may be
		d.Reason = "the policy was changed: " + d.Reason
		c.f.deny(c.event, d) // it is over, recorded or not
	}
}

// decide asks the present policy, and records nothing.
func (e *Engine) decide(r policy.Request) policy.Decision {
	return policy.Decide(e.rules.Load().policy, r)
}

// open are the flows that have not ended.
func (e *Engine) open() []*flow {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Keys(e.flows))
}

// Traffic is what each host was asked and gave so far, what is under way included, the one that
// was used last first.
func (e *Engine) Traffic() []HostTraffic { return e.tally.Traffic() }

// Refused are the destinations that were refused since the start and are not allowed now, the
// last one first.
func (e *Engine) Refused() []Refused { return e.tally.Refused() }

// Counters are the engine's counters, those of open connections included.
func (e *Engine) Counters() Counters {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.total
	c.Open, c.Denied = len(e.flows), e.tally.Denied()
	for f := range e.flows {
		c.BytesIn += f.counts.In.Load()
		c.BytesOut += f.counts.Out.Load()
	}
	return c
}

// Close closes the listeners, resets every connection and returns when nothing of the
// engine runs any more.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	listeners := e.listeners
	e.listeners = nil
	e.mu.Unlock()
	var errs []error
	for _, listener := range listeners {
		errs = append(errs, listener.Close())
	}
	for _, f := range e.open() {
		f.kill()
	}
	e.cancel()
	e.http.close()
	e.host.CloseIdleConnections()
	e.running.Wait()
	return errors.Join(errs...)
}

// isOwn says whether dst is the engine's own listener or any other loopback
// address: what was not redirected, and is never dialled.
func isOwn(dst netip.AddrPort) bool {
	return policy.Classify(dst.Addr()) == policy.Loopback
}
