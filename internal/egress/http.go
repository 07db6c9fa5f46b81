package egress

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"forage/internal/audit"
	"forage/internal/egress/sniff"
	"forage/internal/policy"
)

// httpSide serves the connections that speak HTTP: those to port 80, those to
// the explicit proxy, and those that are looked into. Every request is judged for itself.
type httpSide struct {
	e       *Engine
	server  http.Server
	forward httputil.ReverseProxy
	feed    feed
	start   sync.Once
	// under are the requests that are under way: HTTP/2 has many on a connection, and they
	// are bounded together like connections.
	under chan struct{}
	// serving are all requests of HTTP/2 whose handlers run, those that are being refused too: a
	// handler goes on for a while when its stream has been reset, and a denial waits for its turn.
	serving chan struct{}
	// bodies are the long bodies of requests that are under way: for each of them HTTP/2
	// keeps as much room as the server's frames may be long, up to 512 KiB.
	bodies chan struct{}
	out    atomic.Pointer[http.Transport] // to servers
}

// Bounds of HTTP with clients, beside those of sniff.Gate for HTTP/1.
const (
	maxHeadHTTP = 64 << 10
	shortHead   = 2 << 10  // bytes of a head that are not counted
	maxRequests = 1024     // at one time, on all connections
	maxServing  = 1280     // those, and those that are being refused
	maxBodies   = 64       // of those, that send a long body
	maxStreams  = 100      // requests at one time on a connection of HTTP/2; net/http holds four times as many that were reset before their turn
	maxFrame    = 16 << 10 // bytes; a connection keeps room for one
)

func newHTTPSide(e *Engine) *httpSide {
	h := &httpSide{e: e, feed: feed{conns: make(chan net.Conn), closed: make(chan struct{})}, under: make(chan struct{}, min(e.config.MaxConnections, maxRequests)), serving: make(chan struct{}, maxServing), bodies: make(chan struct{}, maxBodies)}
	quiet := log.New(io.Discard, "", 0)
	h.server = http.Server{
		Handler:           h,
		ReadHeaderTimeout: e.config.SniffTimeout,
		IdleTimeout:       idleHTTP,
		MaxHeaderBytes:    maxHeadHTTP,
		ErrorLog:          quiet,
		// OPTIONS * is for the server, and judged, like everything else.
		DisableGeneralOptionsHandler: true,
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame, CountError: h.malformed},
		ConnContext:                  func(ctx context.Context, c net.Conn) context.Context { return withSession(ctx, c) },
	}
	h.forward = httputil.ReverseProxy{
		Rewrite:        rewrite,
		Transport:      roundTripper(h.roundTrip),
		ErrorLog:       quiet,
		BufferPool:     &buffers{},
		ModifyResponse: h.answered,
		ErrorHandler:   h.failed,
	}
	h.out.Store(h.newTransport())
	return h
}

// malformed records a request of HTTP/2 that the server has refused by itself.
func (h *httpSide) malformed(what string) {
	if strings.Contains(what, "_bad_") || strings.Contains(what, "userinfo") {
		h.e.deny(h.e.ctx, audit.Event{Kind: audit.HTTP}, policy.Decision{Rule: "http-strict", Reason: "an HTTP/2 request is malformed (" + what + ")"})
	}
}

func (h *httpSide) close() {
	h.server.Close()
	h.feed.Close()
	h.out.Load().CloseIdleConnections()
}

// serve serves HTTP on a session's connection, and returns when that is closed.
func (h *httpSide) serve(s *session) error {
	h.start.Do(func() {
		if h.e.enter() {
			go func() {
				defer h.e.running.Done()
				h.server.Serve(&h.feed)
			}()
		}
	})
	conn := s.conn()
	if s.gate != nil {
		share := h.e.heads.Share()
		defer share.Close()
		s.gate.Bound(share)
		if !s.await() {
			conn.Close()
			return s.failed(nil)
		}
	}
	select {
	case h.feed.conns <- conn:
	case <-h.e.ctx.Done():
		s.reset()
	}
	<-s.closed
	return s.failed(nil)
}

// await waits for the first head: before that a connection is not worth what the
// HTTP server has for each. false says that there is none.
func (s *session) await() bool {
	c := s.f.client
	if c.SetReadDeadline(time.Now().Add(s.f.e.config.SniffTimeout)) != nil {
		return false
	}
	return s.gate.Await() == nil && c.SetReadDeadline(time.Time{}) == nil
}

// conn is the session's connection as the HTTP server takes it.
func (s *session) conn() net.Conn {
	if s.tls != nil && s.tls.ConnectionState().NegotiatedProtocol == protocolHTTP2 {
		s.http2 = true
		return s.tls
	}
	c := &gateConn{Conn: &wire{Conn: s.f.client, s: s, prefix: s.prefix}, session: s}
	if s.tls != nil {
		c.Conn = s.tls
	}
	s.gate = sniff.NewGate(c.Conn, nil, s.checkHead)
	return c
}

type sessionKey struct{}

func withSession(ctx context.Context, c net.Conn) context.Context {
	var s *session
	switch c := c.(type) {
	case *gateConn:
		s = c.session
	case *tls.Conn:
		s = c.NetConn().(*wire).s
	}
	return context.WithValue(ctx, sessionKey{}, s)
}

// feed is a listener that accepts what it is given.
type feed struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *feed) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *feed) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *feed) Addr() net.Addr { return &net.TCPAddr{} }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// buffers are what bodies are copied through.
type buffers struct{ pool sync.Pool }

const bufferSize = 16 << 10 // bytes: a record of TLS

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, bufferSize)
}

func (b *buffers) Put(p []byte) { b.pool.Put(&p) }

// idleUpstream is how long a connection to a server is kept for the next request.
const idleUpstream = 30 * time.Second
