package proxy

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"forage/internal/accept"
	"forage/internal/audit"
	"forage/internal/config"
	"forage/internal/deadline"
	"forage/internal/egress"
	"forage/internal/egress/relay"
	"forage/internal/egress/sniff"
	"forage/internal/unixsock"
)

// accept greets each connection to a listener, until that is closed.
func (s *Service) accept(listener net.Listener, at config.ProxyListen) {
	accept.Each(nil, listener, func(conn net.Conn) {
		if guest := s.pending.enter(conn); guest != nil { // here, in the order in which they came
			s.running.Go(func() { s.greet(guest, at) })
		} else {
			relay.Reset(conn)
		}
	})
}

// greeting is a connection whose client is not known yet.
type greeting struct {
	s     *Service
	conn  net.Conn
	at    config.ProxyListen
	from  string // for the audit log
	peer  peer
	guest *guest
}

// greet finds out who is at the other end and gives the connection to its engine.
func (s *Service) greet(guest *guest, at config.ProxyListen) {
	g := &greeting{s: s, conn: guest.conn, at: at, from: fmt.Sprint("from ", guest.conn.RemoteAddr()), guest: guest}
	defer s.pending.leave(guest)
	g.conn.SetDeadline(time.Now().Add(s.options.headTimeout))
	g.peer.kind = at.Kind
	if err := g.meet(); err != nil {
		relay.Reset(g.conn)
		g.refused(http.StatusBadRequest, "no-identity", err)
		return
	}
	head, prefix, err := readHead(g.conn)
	if err != nil {
		g.unreadable(err)
		return
	}
	name, err := s.who.Load().identify(g.peer, head.ProxyAuthorization)
	if err != nil {
		g.refused(http.StatusProxyAuthRequired, egress.RuleIdentity, err)
		g.answer(http.StatusProxyAuthRequired, "who are you? "+needed(at.Kind))
		return
	}
	g.serve(name, head, prefix)
}

// serve gives the connection to the engine of a client.
func (g *greeting) serve(name string, head sniff.Head, prefix []byte) {
	s := g.s
	if g.conn.SetDeadline(time.Time{}) != nil || !s.pending.leave(g.guest) {
		relay.Reset(g.conn)
		return
	}
	s.mu.Lock()
	client := s.clients[name]
	var engine *egress.Engine
	var inside map[string]string
	if client != nil {
		engine, inside = client.engine, client.plan.inside
	}
	closed := s.closed
	s.mu.Unlock()
	switch {
	case client == nil || closed: // removed meanwhile
		relay.Reset(g.conn)
	case isOwn(head.Target):
		client.serveOwn(g, head, inside)
	default:
		engine.ServeProxyConn(g.conn, prefix, func(h sniff.Head) error { return g.stillIs(name, h) })
	}
}

// stillIs refuses a head that is not the client's, who may have changed its
// token or lost it since its connection began.
func (g *greeting) stillIs(name string, h sniff.Head) error {
	got, err := g.s.who.Load().identify(g.peer, h.ProxyAuthorization)
	if err == nil && got != name {
		err = errors.New("the request is of another client than the connection")
	}
	if err != nil {
		if g.s.refusals.Allow() { // the client's own log has it in any case
			g.recordRefusal(http.StatusProxyAuthRequired, egress.RuleIdentity, fmt.Errorf("on a connection of %s: %w", name, err))
		} else {
			g.s.unsaid.Add(1)
		}
		return &sniff.Error{Rule: egress.RuleIdentity, Reason: err.Error()}
	}
	return nil
}

// meet learns what the connection itself proves.
func (g *greeting) meet() error {
	switch g.peer.kind {
	case config.ListenUnix:
		conn, ok := g.conn.(*net.UnixConn)
		if !ok {
			return errors.New("not a unix socket")
		}
		peer, err := unixsock.Peer(conn)
		if err != nil {
			return fmt.Errorf("asking who connected: %w", err)
		}
		g.peer.uid = int(peer.Uid)
		g.from = fmt.Sprintf("from user %d, process %d", peer.Uid, peer.Pid)
	case config.ListenTLS:
		conn := tls.Server(g.conn, g.s.tls.Load().config)
		ctx, cancel := context.WithTimeout(g.guest.ctx, g.s.options.headTimeout)
		defer cancel()
		if err := conn.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("TLS: %w", err)
		}
		chains := conn.ConnectionState().VerifiedChains
		if len(chains) == 0 { // crypto/tls has seen to it
			return errors.New("TLS: no certificate was verified")
		}
		g.peer.names = certificateNames(chains[0][0])
		g.conn = &tlsConn{Conn: conn}
	}
	return nil
}

// tlsConn can be reset, as far as TLS can.
type tlsConn struct {
	*tls.Conn
	abrupt atomic.Bool
}

// SetLinger is what relay.Reset asks for before it closes a connection.
func (c *tlsConn) SetLinger(seconds int) error {
	c.abrupt.Store(seconds == 0)
	if tcp, ok := c.NetConn().(*net.TCPConn); ok {
		return tcp.SetLinger(seconds)
	}
	return nil
}

// Close says goodbye first, as TLS wants it, which a client that does not read can hold up; a reset
// does not wait.
func (c *tlsConn) Close() error {
	if c.abrupt.Load() {
		return c.NetConn().Close()
	}
	return c.Conn.Close()
}

var errRead = errors.New("the head is read")

// readHead reads the first head of a connection. prefix is all that was read.
func readHead(conn net.Conn) (head sniff.Head, prefix []byte, err error) {
	gate := sniff.NewGate(conn, nil, func(h sniff.Head) error { head = h; return errRead })
	if _, err = gate.Read(make([]byte, 1)); errors.Is(err, errRead) {
		return head, gate.Rest(), nil
	}
	return sniff.Head{}, nil, err
}

// unreadable ends a connection that did not begin with a head.
func (g *greeting) unreadable(err error) {
	var malformed *sniff.Error
	switch {
	case errors.As(err, &malformed):
		g.refused(http.StatusBadRequest, malformed.Rule, malformed)
		g.answer(http.StatusBadRequest, malformed.Reason)
	case errors.Is(err, os.ErrDeadlineExceeded):
		g.refused(http.StatusRequestTimeout, "sniff-timeout", errors.New("it did not say who it is in time"))
		relay.Reset(g.conn)
	case g.guest.ctx.Err() != nil: // sent away, to make room
		g.s.unsaid.Add(1)
	default: // it left, as port scanners and health checks do
		g.conn.Close()
	}
}

// refused records that a connection is not served, within bounds: what
// is one too many waits, and what gives up while it waits is counted.
func (g *greeting) refused(status int, rule string, err error) {
	if g.s.refusals.Wait(g.guest.ctx) != nil {
		g.s.unsaid.Add(1)
		return
	}
	g.recordRefusal(status, rule, err)
}

func (g *greeting) recordRefusal(status int, rule string, err error) {
	s := g.s
	reason := fmt.Sprintf("%s on %s: %v", g.from, g.at, err)
	if more := s.unsaid.Swap(0); more > 0 {
		reason = fmt.Sprintf("%s (and %d refusals before this one)", reason, more)
	}
	event := audit.Event{Kind: audit.Connect, Verdict: "deny", Rule: rule, Reason: reason, Status: status}
	if err := s.audit.Record(event); err != nil { // it is refused all the same
		s.log.Error("refusing a connection", "error", err)
	}
}

// answer says why there is nothing to be had here, and ends the connection.
func (g *greeting) answer(status int, text string) {
	challenge := ""
	if status == http.StatusProxyAuthRequired && g.peer.kind != config.ListenTLS {
		challenge = "Proxy-Authenticate: Basic realm=\"forage\"\r\n"
	}
	text = "forage: " + text + "\n"
	g.conn.SetDeadline(time.Now().Add(deadline.End))
	fmt.Fprintf(g.conn, "HTTP/1.1 %d %s\r\n%sConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s",
		status, http.StatusText(status), challenge, len(text), text)
	g.finish()
}

// finish ends a connection that was answered. What is still on its way is
// taken, so that closing does not take the answer back (RFC 9112, 9.6).
func (g *greeting) finish() {
	if half, ok := g.conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		io.CopyN(io.Discard, g.conn, 256<<10)
	}
	g.conn.Close()
}

// needed says how a client of a listener says who it is.
func needed(kind config.ListenKind) string {
	if kind == config.ListenTLS {
		return "the certificate has to be that of a client"
	}
	return "a client's token is expected in Proxy-Authorization (http://NAME:TOKEN@HOST:PORT)"
}

// pending are the connections whose clients are not known yet. There is room
// for so many: one more takes the place of the one that has waited longest, so that
// those who say nothing don't keep out those who do.
type pending struct {
	mu     sync.Mutex
	room   int
	guests *list.List // of *guest, the oldest first
	closed bool
}

// guest is a connection that is waited for.
type guest struct {
	ctx    context.Context // done when it has to go
	cancel context.CancelFunc
	conn   net.Conn
	at     *list.Element // nil once it has left
}

func newPending(room int) *pending { return &pending{room: room, guests: list.New()} }

// enter makes room for conn; nil says that it is closed.
func (p *pending) enter(conn net.Conn) *guest {
	g := &guest{conn: conn}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		g.cancel()
		return nil
	}
	if p.guests.Len() >= p.room {
		p.sendAwayLocked(p.guests.Front().Value.(*guest))
	}
	g.at = p.guests.PushBack(g)
	return g
}

// leave says that a connection is not waited for any more; false says that it
// was sent away before, or has left.
func (p *pending) leave(g *guest) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	g.cancel()
	if g.at == nil {
		return false
	}
	p.guests.Remove(g.at)
	g.at = nil
	return true
}

// close ends all of them, and lets none in.
func (p *pending) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for p.guests.Len() > 0 {
		p.sendAwayLocked(p.guests.Front().Value.(*guest))
	}
}

func (p *pending) sendAwayLocked(g *guest) {
	p.guests.Remove(g.at)
	g.at = nil
	g.cancel()
	relay.Reset(g.conn)
}
