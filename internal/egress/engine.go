// Package egress is the only way out of a sandbox. Every byte that leaves passes through one
// Engine on the host: it answers DNS with synthetic addresses, judges each connection by name,
// records the decision and only then resolves, checks and dials. It holds no policy of its own.
//
// The way of a connection, and where each step is:
//
//	accept     a connection from inside becomes a flow: flow.go, transparent.go
//	identify   whom it means: by its address (transparent.go), the explicit proxy (connect.go),
//	           TLS (tunnel.go), HTTP (requests.go)
//	decide     the policy judges that; it becomes a permit: permit.go, readings.go
//	connect    names are looked up, addresses checked and dialled: dial.go, upstream.go,
//	           transports.go
//	relay      bytes are moved, unread: tunnel.go
//	intercept  or TLS ends here (session.go, http.go), and each request is judged (requests.go),
//	           sent on with its secret (forward.go, roundtrip.go) and answered (answers.go)
//	audit      what was decided, how it ended, and what each host took: record.go, traffic.go
//
// What a client says first is read only where a protocol says that the client speaks first (TLS
// on 443, HTTP on 80), and has to agree with the name that was judged. A connection is
// intercepted where rules are about requests, a secret is bound or a budget reads answers.
//
// A permit is on a connection: all of it, or one request. When the policy changes, each is judged
// again, and a connection with one that is no longer allowed is reset. The others are not
// touched.
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
	"forage/internal/egress/sniff"
	"forage/internal/netns"
	"forage/internal/policy"
)

// Engine serves one sandbox's way out.
type Engine struct {
	config  Config
	pins    pins
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	slots   chan struct{}
	denials *rate.Limiter
	unsaid  atomic.Int64 // those that have no line in the audit log
	heads   *sniff.Budget
	names   dns.Names
	http    *httpSide
	host    *http.Transport // of the host's own requests
	locals  localNetworks
	hasIPv6 atomic.Bool                    // connections over IPv6 reach us
	secrets atomic.Pointer[credential.Set] // changed under mu

	mu        sync.Mutex
	policy    policy.Policy
	flows     map[*flow]struct{}
	permits   map[*permit]struct{}
	servers   map[*dialledConn]struct{} // connections of transports
	traffic   traffic
	refused   refusals
	told      map[string]bool // names in the DNS that are recorded as allowed since the last change
	listeners []interface{ Close() error }
	closed    bool
	total     Counters // of flows that have ended
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
	pins, err := compilePins(config.Resolve)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		config:  config,
		pins:    pins,
		slots:   make(chan struct{}, config.MaxConnections),
		denials: rate.NewLimiter(denialsPerSecond, denialBurst),
		heads:   sniff.NewBudget(headsBudget),
		policy:  config.Policy,
		flows:   make(map[*flow]struct{}),
		permits: make(map[*permit]struct{}),
		servers: make(map[*dialledConn]struct{}),
		traffic: traffic{byHost: make(map[string]*hostCounts)},
		told:    make(map[string]bool),
		refused: make(refusals),
	}
	e.locals.read = config.HostNetworks
	e.secrets.Store(config.Credentials)
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
func (e *Engine) SetPolicy(p policy.Policy) { e.set(p, nil) }

// Set is SetPolicy and SetCredentials at once: no request that one policy has allowed is given
// the secret that belongs to the other.
func (e *Engine) Set(p policy.Policy, s *credential.Set) {
	e.set(p, func() { e.setCredentials(s) })
}

func (e *Engine) set(p policy.Policy, with func()) {
	e.mu.Lock()
	e.policy = p
	if with != nil {
		with()
	}
	e.told = make(map[string]bool)
	e.refused.forget(p, e.pins)
	ended := make(map[*permit]policy.Decision)
	for c := range e.permits {
		if d := c.judgeAgainLocked(); d.Verdict != policy.Allow {
			ended[c] = d
		}
	}
	e.mu.Unlock()
	e.http.renew()
	for c := range ended {
		c.f.kill()
	}
	for c, d := range ended { // as slowly as denials may be
		d.Reason = "the policy was changed: " + d.Reason
		c.f.deny(c.event(), d) // it is over, recorded or not
	}
}

// SetCredentials changes what is put into requests from the next one on. Connections that are
// not looked into stay so. Where the policy changes with it, it is Set.
func (e *Engine) SetCredentials(s *credential.Set) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.setCredentials(s)
}

func (e *Engine) setCredentials(s *credential.Set) {
	s.Remember(e.secrets.Load()) // servers may still tell what was rotated
	e.secrets.Store(s)
}

// Counters are the engine's counters, those of open connections included.
func (e *Engine) Counters() Counters {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.total
	c.Open = len(e.flows)
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
	flows := slices.Collect(maps.Keys(e.flows))
	servers := slices.Collect(maps.Keys(e.servers))
	e.mu.Unlock()
	var errs []error
	for _, listener := range listeners {
		errs = append(errs, listener.Close())
	}
	for _, f := range flows {
		f.kill()
	}
	e.cancel()
	for _, c := range servers {
		c.Close()
	}
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
