package egress

import (
	"bufio"
	"errors"
	"net"
	"net/http"

	"forage/internal/audit"
	"forage/internal/egress/relay"
	"forage/internal/egress/sniff"
	"forage/internal/policy"
)

// serveProxy serves the explicit proxy.
func (f *flow) serveProxy() {
	f.e.http.serve(f, nil, nil) // each request has its own lines
}

// RuleIdentity is the rule of a *sniff.Error that asks the client to say who it is: it is answered with 407.
const RuleIdentity = "proxy-identity"

// ServeProxyConn begins to serve a connection to the explicit proxy that was
// accepted elsewhere, and returns. prefix was read from it already. check is asked about each head for
// the proxy before anything is done about it, the first included; its error is a *sniff.Error. The
// connection is the engine's from here on.
func (e *Engine) ServeProxyConn(conn net.Conn, prefix []byte, check func(sniff.Head) error) {
	e.start(conn, func(f *flow) {
		f.check = check
		e.http.serve(f, prefix, nil)
	})
}

// serveConnect makes a tunnel of a connection to the explicit proxy: what goes
// through it is held against the name as on a connection that was redirected.
func (h *httpSide) serveConnect(w http.ResponseWriter, r *http.Request, c *gateConn) {
	f := c.f
	event := audit.Event{Kind: audit.Connect, Method: http.MethodConnect}
	to, err := policy.ParseAuthority(r.RequestURI, 0)
	if err != nil { // the gate would have refused it
		panic(http.ErrAbortHandler)
	}
	to = h.e.pins.request(to)
	d, err := f.judge(to, event)
	if err != nil {
		h.refuse(w, c, err)
		return
	}
	upstream, err := f.dialTunnel(event, to, d)
	if err != nil {
		h.refuse(w, c, err)
		return
	}
	prefix, err := c.becomeTunnel(w)
	if err != nil {
		f.closing(event, to, d, &f.counts, err)
		if upstream != nil {
			relay.Reset(upstream)
		}
		panic(http.ErrAbortHandler)
	}
	defer c.finish()
	if upstream == nil {
		err := h.serve(f, prefix, &to)
		f.closing(event, to, d, &f.counts, err)
		return
	}
	f.tunnel(event, to, d, prefix, upstream)
}

// dialTunnel dials before the tunnel is promised, so that a failure can be
// told; nil on port 80, where each request is dialled for.
func (f *flow) dialTunnel(event audit.Event, to policy.Request, d policy.Decision) (net.Conn, error) {
	if to.Port == httpPort {
		return nil, nil
	}
	upstream, err := f.dial(f.ctx, to, d)
	var denied *deniedError
	if err != nil && !errors.As(err, &denied) {
		f.closing(event, to, d, &relay.Counts{}, err)
	}
	return upstream, err
}

// becomeTunnel takes the connection out of the HTTP server's hands, says that
// the tunnel is there and returns what the client has sent into it already.
func (c *gateConn) becomeTunnel(w http.ResponseWriter) (prefix []byte, err error) {
	_, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	c.f.counts.In.Store(0)
	c.f.counts.Out.Store(0)
	prefix = append(readBuffered(buffered.Reader), c.gate.Rest()...)
	if _, err := c.Conn.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		c.Close()
		return nil, err
	}
	return prefix, nil
}

func readBuffered(r *bufio.Reader) []byte {
	b := make([]byte, r.Buffered())
	n, _ := r.Read(b) // what is buffered is given without an error
	return b[:n]
}
