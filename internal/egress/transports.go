package egress

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"forage/internal/deadline"
	"forage/internal/policy"
)

// Bounds of HTTP with servers.
const (
	maxIdle         = 256
	maxIdlePerHost  = 64
	maxAnswerHead   = 256 << 10
	continueTimeout = time.Second // RFC 9110, 10.1.1: a client does not wait for 100 (Continue) without end
	streamWindow    = 1 << 20     // bytes of one answer that wait for a client that is slow
	connWindow      = 2 << 20     // of all answers on a connection
)

// renew forgets connections that were kept: an earlier policy has allowed them. Those in use end
// when their requests do.
func (h *httpSide) renew() {
	old := h.out.Swap(h.newTransport())
	if h.e.enter() {
		go func() { // a server that takes no goodbye is not waited for: there is something to cut
			defer h.e.running.Done()
			old.CloseIdleConnections()
		}()
	}
}

// newTransport sends requests to servers, and keeps connections for later ones.
func (h *httpSide) newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Transport{
		DialContext:         h.dial,
		Proxy:               h.proxyFor,
		TLSClientConfig:     &tls.Config{RootCAs: h.e.config.RootCAs, MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(64)},
		TLSHandshakeTimeout: deadline.Answer,
		Protocols:           protocols,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connWindow,
			SendPingTimeout: deadline.Answer, PingTimeout: deadline.Answer, // a server that is gone is not waited for without end
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

// proxyFor sends requests in the clear through the upstream proxy where there is one.
func (h *httpSide) proxyFor(r *http.Request) (*url.URL, error) {
	if j := exchangeOf(r); j.scheme == "https" || h.e.router.Direct(j.to) { // TLS goes through a tunnel: see dialRoute
		return nil, nil
	}
	return h.e.router.Proxy, nil
}

// dial connects for a request, which may then use another connection to the same place.
func (h *httpSide) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	j := ctx.Value(exchangeKey{}).(*exchange)
	e, c := h.e, j.permit
	if !e.enter() {
		return nil, net.ErrClosed
	}
	defer e.running.Done()
	if j.scheme == "http" && e.router.Proxy != nil && !e.router.Direct(j.to) { // which is asked by the request itself
		if err := c.leadsTo(netip.AddrPort{}, true); err != nil {
			return nil, err
		}
		ctx, cancel := c.bound(ctx)
		defer cancel()
		conn, err := e.router.DialProxy(ctx)
		return e.keep(conn, netip.AddrPort{}, err)
	}
	return e.keep(c.dial(ctx))
}

// dialledConn is a connection of a transport to a server. It knows the address that
// was checked for it.
type dialledConn struct {
	net.Conn
	addr  netip.AddrPort  // invalid through a proxy
	gone  <-chan struct{} // closed when it is
	close context.CancelFunc
}

// keep makes a transport's connection end with the engine.
func (e *Engine) keep(conn net.Conn, addr netip.AddrPort, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(e.ctx)
	context.AfterFunc(ctx, func() { conn.Close() })
	return &dialledConn{conn, addr, ctx.Done(), cancel}, nil
}

func (c *dialledConn) Close() error {
	c.close()
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
	allowed := func(netip.AddrPort) error { return nil }
	return e.keep(e.router.Dial(ctx, e.router.Complete(to), allowed))
}
