package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"time"

	"forage/internal/audit"
	"forage/internal/egress/relay"
	"forage/internal/egress/sniff"
	"forage/internal/policy"
)

// httpSide serves the connections that speak HTTP/1: those to port 80, and
// those to the explicit proxy. Every request is judged for itself.
type httpSide struct {
	e       *Engine
	server  http.Server
	forward httputil.ReverseProxy
	feed    feed
	start   sync.Once

	mu        sync.Mutex
	transport *http.Transport // of the present policy
}

func newHTTPSide(e *Engine) *httpSide {
	h := &httpSide{e: e, feed: feed{conns: make(chan net.Conn), closed: make(chan struct{})}}
	quiet := log.New(io.Discard, "", 0)
	h.server = http.Server{
		Handler:           h,
		ReadHeaderTimeout: e.config.SniffTimeout,
		IdleTimeout:       idleHTTP,
		MaxHeaderBytes:    128 << 10, // the gate's bound is tighter
		ErrorLog:          quiet,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, gateKey{}, c)
		},
	}
	h.forward = httputil.ReverseProxy{
		Rewrite:        h.rewrite,
		Transport:      roundTripper(func(r *http.Request) (*http.Response, error) { return h.current().RoundTrip(r) }),
		FlushInterval:  -1,
		ErrorLog:       quiet,
		BufferPool:     &buffers{},
		ModifyResponse: h.checkUpgrade,
		ErrorHandler:   h.failed,
	}
	h.transport = h.newTransport()
	return h
}

func (h *httpSide) newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  h.proxyFor,
		DialContext:            h.dial,
		DisableCompression:     true,
		MaxIdleConns:           32,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		ReadBufferSize:         32 << 10,
	}
}

func (h *httpSide) current() *http.Transport {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.transport
}

// renew forgets the upstream connections that another policy has allowed.
func (h *httpSide) renew() {
	h.mu.Lock()
	old := h.transport
	h.transport = h.newTransport()
	h.mu.Unlock()
	old.CloseIdleConnections()
}

func (h *httpSide) close() {
	h.server.Close()
	h.feed.Close()
	h.current().CloseIdleConnections()
}

// serve serves HTTP on a flow, and returns when the connection is closed.
// fixed is the one destination that was judged; nil makes it the explicit proxy.
func (h *httpSide) serve(f *flow, prefix []byte, fixed *policy.Request) error {
	h.start.Do(func() {
		if h.e.enter() {
			go func() {
				defer h.e.running.Done()
				h.server.Serve(&h.feed)
			}()
		}
	})
	c := &gateConn{Conn: f.client, f: f, fixed: fixed, closed: make(chan struct{})}
	c.gate = sniff.NewGate(f.client, prefix, c.checkHead)
	select {
	case h.feed.conns <- c:
	case <-h.e.ctx.Done():
		return c.Close()
	}
	<-c.closed
	return c.failed(nil)
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

type gateKey struct{}

// gateConn is a connection from inside as the HTTP server sees it: behind a gate.
type gateConn struct {
	net.Conn
	f       *flow
	gate    *sniff.Gate
	fixed   *policy.Request
	once    sync.Once
	serving atomic.Bool // a request is being answered
	closed  chan struct{}

	mu      sync.Mutex
	failure error // why it was ended, for its closing line
}

// Read is called by one goroutine at a time, as the server does.
func (c *gateConn) Read(p []byte) (int, error) {
	n, err := c.gate.Read(p)
	c.f.counts.Out.Add(int64(n))
	var refused *sniff.Error
	if errors.As(err, &refused) && c.failed(nil) == nil {
		c.refuse(refused)
	}
	return n, err
}

// refuse records what the gate does not let pass, and ends the connection.
func (c *gateConn) refuse(refused *sniff.Error) {
	event := audit.Event{Kind: audit.HTTP}
	if c.fixed != nil {
		event.Host, event.Port = c.fixed.Dest(), c.fixed.Port
	}
	c.failed(c.f.deny(event, policy.Decision{Rule: refused.Rule, Reason: refused.Reason}))
	switch {
	case c.fixed != nil:
		relay.Reset(c.Conn)
	case !c.serving.Load():
		status, text := http.StatusBadRequest, fmt.Sprintf("forage: denied (%s): %s\n", refused.Rule, refused.Reason)
		if refused.Rule == policy.RuleMalformed || refused.Rule == "host-mismatch" {
			status = http.StatusForbidden
		}
		challenge := ""
		if refused.Rule == RuleIdentity {
			status, challenge = http.StatusProxyAuthRequired, "Proxy-Authenticate: Basic realm=\"forage\"\r\n"
		}
		fmt.Fprintf(c, "HTTP/1.1 %d %s\r\n%sConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s",
			status, http.StatusText(status), challenge, len(text), text)
		c.Close()
	}
}

// failed notes the first failure, if err is one, and returns it.
func (c *gateConn) failed(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		c.failure = err
	}
	return c.failure
}

func (c *gateConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.f.counts.In.Add(int64(n))
	return n, err
}

func (c *gateConn) Close() error {
	err := c.Conn.Close()
	c.finish()
	return err
}

// finish lets serve return.
func (c *gateConn) finish() { c.once.Do(func() { close(c.closed) }) }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// buffers are what bodies are copied through.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 64<<10)
}

func (b *buffers) Put(p []byte) { b.pool.Put(&p) }
