package egress

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"forage/internal/egress/relay"
	"forage/internal/policy"
)

// Bounds of HTTP with servers.
const (
	maxIdle         = 256
	maxIdlePerHost  = 64
	maxAnswerHead   = 256 << 10
	continueTimeout = time.Second      // RFC 9110, 10.1.1: a client does not wait for 100 (Continue) without end
	pingAfter       = 30 * time.Second // of silence
	streamWindow    = 1 << 20          // bytes of one answer that wait for a client that is slow
	connWindow      = 2 << 20          // of all answers on a connection
)

// transports send requests to servers, and keep connections for later ones.
type transports struct {
	clear   *http.Transport // HTTP/1 without TLS
	secure  *http.Transport // TLS, and HTTP/2 where the server has it
	upgrade *http.Transport // TLS with HTTP/1 alone: WebSocket is asked for in that
}

func (h *httpSide) newTransports() *transports {
	h2 := new(http.Protocols)
	h2.SetHTTP1(true)
	h2.SetHTTP2(true)
	h1 := new(http.Protocols)
	h1.SetHTTP1(true)
	t := &transports{h.newTransport(h1), h.newTransport(h2), h.newTransport(h1)}
	t.clear.Proxy, t.clear.ReadBufferSize = h.proxyFor, 32<<10
	t.clear.DialContext = h.dialClear
	return t
}

// renew forgets connections that were kept: an earlier policy has allowed them. Those in use end
// when their requests do.
func (h *httpSide) renew() {
	old := h.outs.Swap(h.newTransports())
	if h.e.enter() {
		go func() { // a server that takes no goodbye is not waited for: there is something to cut
			defer h.e.running.Done()
			old.close()
		}()
	}
}

func (h *httpSide) newTransport(protocols *http.Protocols) *http.Transport {
	return &http.Transport{
		DialContext:         h.dial,
		TLSClientConfig:     &tls.Config{RootCAs: h.e.config.RootCAs, MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(64)},
		TLSHandshakeTimeout: dialTimeout,
		Protocols:           protocols,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connWindow,
			SendPingTimeout: pingAfter, PingTimeout: pingAfter, // a server that is gone is not waited for without end
		},
		DisableCompression:     true,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		IdleConnTimeout:        idleUpstream,
		ExpectContinueTimeout:  continueTimeout,
		MaxResponseHeaderBytes: maxAnswerHead,
		ReadBufferSize:         16 << 10, // a record of TLS
	}
}

// of is the transport for a request.
func (t *transports) of(scheme string, webSocket bool) *http.Transport {
	switch {
	case scheme == "http":
		return t.clear
	case webSocket:
		return t.upgrade
	}
	return t.secure
}

func (t *transports) close() {
	for _, transport := range []*http.Transport{t.clear, t.secure, t.upgrade} {
		transport.CloseIdleConnections()
	}
}

// proxyFor sends requests in the clear through the upstream proxy where there is one.
func (h *httpSide) proxyFor(r *http.Request) (*url.URL, error) {
	if h.e.direct(exchangeOf(r).to) {
		return nil, nil
	}
	return h.e.config.UpstreamProxy, nil
}

// dialClear connects for a request in the clear: to the upstream proxy where there is one.
func (h *httpSide) dialClear(ctx context.Context, network, addr string) (net.Conn, error) {
	j := ctx.Value(exchangeKey{}).(*exchange)
	if h.e.config.UpstreamProxy == nil || h.e.direct(j.to) {
		return h.dial(ctx, network, addr)
	}
	if !h.e.enter() {
		return nil, net.ErrClosed
	}
	defer h.e.running.Done()
	if err := j.permit.leadsTo(netip.AddrPort{}); err != nil {
		return nil, err
	}
	ctx, cancel := j.permit.bound(ctx)
	defer cancel()
	conn, err := h.e.dialProxy(ctx)
	return h.e.keep(conn, netip.AddrPort{}, err)
}

// dial connects for a request, which may then use another connection to the same place.
func (h *httpSide) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	c := ctx.Value(exchangeKey{}).(*exchange).permit
	if !h.e.enter() {
		return nil, net.ErrClosed
	}
	defer h.e.running.Done()
	conn, err := c.dial(ctx)
	h.e.mu.Lock()
	addr := c.addr
	h.e.mu.Unlock()
	return h.e.keep(conn, addr, err)
}

// dialledConn is a connection of a transport to a server. It knows the address that
// was checked for it.
type dialledConn struct {
	net.Conn
	e    *Engine
	addr netip.AddrPort // invalid through a proxy
	gone chan struct{}  // closed when it is
}

// keep makes a transport's connection end with the engine.
func (e *Engine) keep(conn net.Conn, addr netip.AddrPort, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	kept := &dialledConn{conn, e, addr, make(chan struct{})}
	e.mu.Lock()
	closed := e.closed
	if !closed {
		e.servers[kept] = struct{}{}
	}
	e.mu.Unlock()
	if closed {
		relay.Reset(conn)
		return nil, net.ErrClosed
	}
	return kept, nil
}

func (c *dialledConn) Close() error {
	c.e.mu.Lock()
	if _, open := c.e.servers[c]; open {
		delete(c.e.servers, c)
		close(c.gone)
	}
	c.e.mu.Unlock()
	return c.Conn.Close()
}

// keptOf is what was dialled for a connection of a transport.
func keptOf(conn net.Conn) (dialled *dialledConn, ok bool) {
	if secure, isTLS := conn.(*tls.Conn); isTLS {
		conn = secure.NetConn()
	}
	dialled, ok = conn.(*dialledConn)
	return dialled, ok
}

// HostTransport sends the host's own requests, such as one to renew a login:
// like the sandbox's it goes through the upstream proxy, to the addresses that the
// configuration gives and with its roots; the sandbox's policy has no say in it.
func (e *Engine) HostTransport() http.RoundTripper { return e.host }

// dialForHost connects to where the host's own requests go, whatever the policy says.
func (e *Engine) dialForHost(ctx context.Context, _, authority string) (net.Conn, error) {
	to, err := policy.ParseAuthority(authority, 0)
	if err != nil {
		return nil, err
	}
	to = e.pins.request(to)
	addrs := e.fixed(to)
	if len(addrs) == 0 {
		if e.config.UpstreamProxy != nil {
			conn, err := e.dialThroughProxy(ctx, to)
			return e.keep(conn, netip.AddrPort{}, err)
		}
		if addrs, err = e.resolve(ctx, to); err != nil {
			return nil, err
		}
	}
	for _, addr := range takeTurns(addrs) {
		var conn net.Conn
		if conn, err = e.config.Dial(ctx, addr); err == nil {
			return e.keep(conn, netip.AddrPort{}, nil)
		}
	}
	return nil, err
}
