package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"

	"forage/internal/audit"
	"forage/internal/egress/relay"
	"forage/internal/egress/sniff"
	"forage/internal/policy"
)

// checkHead refuses a head that names no place or two. What each request may
// reach is judged when it is served.
func (c *gateConn) checkHead(h sniff.Head) error {
	if c.fixed != nil {
		return checkServerHead(h)
	}
	if c.f.check != nil {
		if err := c.f.check(h); err != nil {
			return err
		}
	}
	authority, port := h.Target, uint16(0)
	if h.Method != http.MethodConnect {
		var absolute bool
		if authority, absolute = cutScheme(h.Target); !absolute {
			return nil // answered when it is served
		}
		port = httpPort
	}
	target, err := policy.ParseAuthority(authority, port)
	if err != nil {
		return &sniff.Error{Rule: policy.RuleMalformed, Reason: "the HTTP request names no host that can be judged: " + err.Error()}
	}
	if h.Host == "" {
		return nil
	}
	if said, err := policy.ParseAuthority(h.Host, target.Port); err != nil || said != target {
		return &sniff.Error{Rule: "host-mismatch", Reason: fmt.Sprintf("the HTTP request is for %.255q, its Host is %.255q", authority, h.Host)}
	}
	return nil
}

// checkServerHead checks a head that is meant for a server, not for a proxy.
func checkServerHead(h sniff.Head) error {
	if h.Target[0] != '/' && (h.Target != "*" || h.Method != http.MethodOptions) {
		return &sniff.Error{Rule: "http-strict", Reason: "the HTTP request is one for a proxy"}
	}
	if _, err := policy.ParseAuthority(h.Host, httpPort); err != nil {
		return &sniff.Error{Rule: "host-mismatch", Reason: "the HTTP request names no host in Host: " + err.Error()}
	}
	return nil
}

// cutScheme returns the authority of an absolute http URL.
func cutScheme(target string) (authority string, ok bool) {
	if len(target) < 7 || !strings.EqualFold(target[:7], "http://") {
		return "", false
	}
	authority = target[7:]
	if end := strings.IndexAny(authority, "/?"); end >= 0 {
		authority = authority[:end]
	}
	return authority, true
}

// ServeHTTP serves one request from inside.
func (h *httpSide) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(gateKey{}).(*gateConn)
	if !ok || !h.e.enter() {
		panic(http.ErrAbortHandler)
	}
	defer h.e.running.Done()
	c.serving.Store(true)
	defer c.serving.Store(false)
	switch {
	case c.fixed != nil:
		h.serveFixed(w, r, c)
	case r.Method == http.MethodConnect:
		h.serveConnect(w, r, c)
	default:
		h.serveAbsolute(w, r, c)
	}
}

// serveFixed serves a request on a connection to port 80: its Host has to be
// the name that the connection was judged by.
func (h *httpSide) serveFixed(w http.ResponseWriter, r *http.Request, c *gateConn) {
	said, err := policy.ParseAuthority(r.Host, c.fixed.Port)
	same := err == nil && said == *c.fixed
	if err == nil && !same && c.fixed.Host == "" && said.Host != "" && said.Port == c.fixed.Port {
		// An address was allowed; the name that is asked of it has to be as well.
		h.e.mu.Lock()
		same = policy.Decide(h.e.policy, h.e.pins.request(said)).Verdict == policy.Allow
		h.e.mu.Unlock()
	}
	if !same {
		event := requestEvent(r)
		event.Host, event.Port = c.fixed.Dest(), c.fixed.Port
		reason := fmt.Sprintf("the Host of the HTTP request is %.255q", r.Host)
		h.refuse(w, c, c.failed(c.f.deny(event, policy.Decision{Rule: "host-mismatch", Reason: reason})))
		return
	}
	h.pass(w, r, c, *c.fixed, said)
}

// serveAbsolute serves a request to the explicit proxy.
func (h *httpSide) serveAbsolute(w http.ResponseWriter, r *http.Request, c *gateConn) {
	if r.URL.Scheme != "http" || r.URL.Host == "" {
		const usage = "this is a proxy: it takes CONNECT, and requests for http://HOST/"
		c.f.deny(requestEvent(r), policy.Decision{Rule: "not-proxied", Reason: usage}) // refused, recorded or not
		h.reply(w, http.StatusBadRequest, usage)
		return
	}
	target, err := policy.ParseAuthority(r.URL.Host, httpPort)
	if err != nil { // the gate would have refused it
		panic(http.ErrAbortHandler)
	}
	h.pass(w, r, c, target, target)
}

// requestEvent is what the audit says of a request. Its query may hold
// secrets and stays out.
func requestEvent(r *http.Request) audit.Event {
	return audit.Event{Kind: audit.HTTP, Method: r.Method, Path: r.URL.EscapedPath()}
}

// job is what a request is forwarded for.
type job struct {
	c        *gateConn
	to       policy.Request
	host     policy.Request // what the Host field says
	decision policy.Decision
	upgraded bool
}

type jobKey struct{}

// pass judges a request and forwards it.
func (h *httpSide) pass(w http.ResponseWriter, r *http.Request, c *gateConn, to, host policy.Request) {
	event := requestEvent(r)
	d, err := c.f.judge(to, event)
	if err == nil && to.Port == tlsPort {
		event.Host, event.Port = to.Dest(), to.Port
		err = c.f.deny(event, policy.Decision{Rule: "not-tls", Reason: "a request in the clear to the port of TLS"})
	}
	if err != nil {
		h.refuse(w, c, err)
		return
	}
	j := &job{c: c, to: h.e.pins.request(to), host: host, decision: d}
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), jobKey{}, j))
	defer cancel()
	defer context.AfterFunc(c.f.ctx, cancel)()
	before := [2]int64{c.f.counts.In.Load(), c.f.counts.Out.Load()}
	http.NewResponseController(w).EnableFullDuplex() // a server may answer before it has read everything
	counted := &countedWriter{ResponseWriter: w}
	defer func() { // also when the handler is aborted
		var counts relay.Counts
		counts.Out.Store(c.f.counts.Out.Load() - before[1])
		counts.In.Store(counted.written)
		if j.upgraded {
			counts.In.Store(c.f.counts.In.Load() - before[0])
		}
		c.f.closing(event, to, d, &counts, counted.failure)
	}()
	h.forward.ServeHTTP(counted, r.WithContext(ctx))
}

// rewrite makes the request that is sent on: to what was judged, and to
// nothing that a server could understand otherwise.
func (h *httpSide) rewrite(p *httputil.ProxyRequest) {
	j := p.In.Context().Value(jobKey{}).(*job)
	p.Out.URL.Scheme = "http"
	p.Out.URL.Host = j.to.Authority()
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	p.Out.Host = strings.TrimSuffix(j.host.Authority(), ":80")
	if !strings.EqualFold(p.Out.Header.Get("Upgrade"), "websocket") { // h2c would carry requests of its own
		p.Out.Header.Del("Upgrade")
		p.Out.Header.Del("Connection")
	}
	p.Out.Header.Del("Http2-Settings")
}

// checkUpgrade lets a connection leave HTTP when both sides have agreed on it.
func (h *httpSide) checkUpgrade(res *http.Response) error {
	if res.StatusCode != http.StatusSwitchingProtocols {
		return nil
	}
	if !strings.EqualFold(res.Header.Get("Upgrade"), "websocket") || !strings.EqualFold(res.Request.Header.Get("Upgrade"), "websocket") {
		return errors.New("the server switched to a protocol that was not asked for")
	}
	j := res.Request.Context().Value(jobKey{}).(*job)
	j.upgraded = true
	j.c.gate.Open()
	return nil
}

// failed answers a request that could not be forwarded.
func (h *httpSide) failed(w http.ResponseWriter, r *http.Request, err error) {
	j := r.Context().Value(jobKey{}).(*job)
	if counted, ok := w.(*countedWriter); ok {
		counted.failure = err
	}
	if j.upgraded {
		panic(http.ErrAbortHandler)
	}
	h.refuse(w, j.c, err)
}

// refuse ends a request with the error that it met: by a reset where the
// client knows of no proxy, else by an answer. The connection ends too.
func (h *httpSide) refuse(w http.ResponseWriter, c *gateConn, err error) {
	if c.fixed != nil {
		relay.Reset(c.Conn)
		panic(http.ErrAbortHandler)
	}
	status, text := explain(err)
	h.reply(w, status, text)
}

// explain tells a client why there is no answer, without what the host knows
// of its own network: the audit log has that.
func explain(err error) (status int, text string) {
	var denied *deniedError
	var lookup *net.DNSError
	var network net.Error
	switch {
	case errors.As(err, &denied):
		return http.StatusForbidden, fmt.Sprintf("denied by policy (%s): %s", denied.Rule, denied.Reason)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return http.StatusGatewayTimeout, "the server does not answer in time"
	case errors.As(err, &lookup):
		return http.StatusBadGateway, "the server's name can't be looked up"
	case errors.Is(err, syscall.ECONNREFUSED):
		return http.StatusBadGateway, "the server refuses the connection"
	}
	return http.StatusBadGateway, "the server can't be reached, or does not answer as it should"
}

func (h *httpSide) reply(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Connection", "close")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintf(w, "forage: %s\n", text)
}

// countedWriter counts a response's body.
type countedWriter struct {
	http.ResponseWriter
	written int64
	failure error
}

func (w *countedWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.written += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// proxyFor sends requests through the upstream proxy where there is one.
func (h *httpSide) proxyFor(r *http.Request) (*url.URL, error) {
	j := r.Context().Value(jobKey{}).(*job)
	if h.e.direct(j.to) {
		return nil, nil
	}
	return h.e.config.UpstreamProxy, nil
}

// dial connects for a request, which may then use another connection to the same place.
func (h *httpSide) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	j := ctx.Value(jobKey{}).(*job)
	if !h.e.enter() {
		return nil, net.ErrClosed
	}
	defer h.e.running.Done()
	if h.e.config.UpstreamProxy != nil && !h.e.direct(j.to) {
		if err := j.c.f.commit(netip.AddrPort{}); err != nil {
			return nil, err
		}
		return h.e.dialProxy(ctx)
	}
	return j.c.f.dial(ctx, j.to, j.decision)
}
