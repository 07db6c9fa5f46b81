package egress

import (
	"bytes"
	"net"
	"net/http"

	"forage/internal/audit"
	"forage/internal/egress/relay"
	"forage/internal/egress/sniff"
	"forage/internal/policy"
)

// serveProxy serves the explicit proxy.
func (f *flow) serveProxy() { f.proxy(nil) }

// proxy serves the explicit proxy, and the tunnel that it may end in: here, so that what HTTP
// has needed is not kept for as long as the tunnel is open.
func (f *flow) proxy(prefix []byte) {
	s := newSession(f, nil, prefix)
	f.e.http.serve(s) // each request has its own lines
	if s.tunnel != nil {
		s.tunnel()
	}
}

// RuleIdentity is the rule of a *sniff.Error that asks the client to say who it is: it is
// answered with 407.
const RuleIdentity = "proxy-identity"

// ServeProxyConn begins to serve a connection to the explicit proxy that was accepted elsewhere,
// and returns. prefix was read from it already. check is asked about each head for the proxy
// before anything is done about it, the first included; its error is a *sniff.Error. The
// connection is the engine's from here on.
func (e *Engine) ServeProxyConn(conn net.Conn, prefix []byte, check func(sniff.Head) error) {
	e.start(conn, func(f *flow) {
		f.check = check
		f.proxy(prefix)
	})
}

// serveConnect makes a tunnel of a connection to the explicit proxy: what goes
// through it is held against the name as on a connection that was redirected.
func (h *httpSide) serveConnect(w http.ResponseWriter, r *http.Request, s *session) {
	f := s.f
	to, err := policy.ParseAuthority(r.RequestURI, 0)
	if err != nil { // the gate would have refused it
		panic(http.ErrAbortHandler)
	}
	c, err := f.judge(to, audit.Event{Kind: audit.Connect, Method: http.MethodConnect})
	if err != nil {
		h.refuse(w, r, s, err)
		return
	}
	upstream, err := f.dialTunnel(c)
	if err != nil {
		c.release()
		h.refuse(w, r, s, err)
		return
	}
	prefix, err := s.becomeTunnel(w)
	if err == nil {
		s.tunnel = func() { f.tunnel(c, prefix, upstream) }
		if s.finish() {
			return
		}
		err = net.ErrClosed // the wait is over
	}
	c.closing(c.event, err)
	if upstream != nil {
		relay.Reset(upstream)
	}
	s.finish()
	panic(http.ErrAbortHandler)
}

// dialTunnel dials before the tunnel is promised, so that a failure can be
// told; nil where each request is dialled for.
func (f *flow) dialTunnel(c *permit) (net.Conn, error) {
	if to := c.request; to.Port == httpPort || f.e.looksInto(to, c.now()) {
		return nil, nil
	}
	if err := c.beWhole(); err != nil {
		return nil, err
	}
	upstream, _, err := c.dial(f.ctx)
	if err != nil && !isRecorded(err) {
		c.closing(c.event, err)
	}
	return upstream, err
}

// becomeTunnel takes the connection out of the HTTP server's hands, says that
// the tunnel is there and returns what the client has sent into it already.
func (s *session) becomeTunnel(w http.ResponseWriter) (prefix []byte, err error) {
	_, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	s.f.counts.In.Store(0) // what was said about the tunnel is not of it
	s.f.counts.Out.Store(0)
	prefix, _ = buffered.Reader.Peek(buffered.Reader.Buffered())
	prefix = append(bytes.Clone(prefix), s.gate.Rest()...)
	if _, err := s.f.client.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		s.f.client.Close()
		return nil, err
	}
	return prefix, nil
}
