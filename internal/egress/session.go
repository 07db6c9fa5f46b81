package egress

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"forage/internal/audit"
	"forage/internal/deadline"
	"forage/internal/egress/meter"
	"forage/internal/egress/relay"
	"forage/internal/egress/sniff"
	"forage/internal/policy"
)

// session is a connection from inside that speaks HTTP.
type session struct {
	f      *flow
	fixed  *policy.Request // the one destination that was judged; nil is the explicit proxy
	prefix []byte          // was read before, of a connection in the clear
	secure bool            // it came inside of TLS, which ended here
	tls    *tls.Conn       // nil in the clear
	http2  bool
	gate   *sniff.Gate // nil for HTTP/2
	tunnel func()      // what it becomes when serve has returned

	asked atomic.Int32                 // requests of HTTP/1 that are being answered
	left  atomic.Pointer[relay.Counts] // the connection has left HTTP, and counts there
	told  atomic.Pointer[string]       // for the status line of a refusal: see reasonPhrase

	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	failure error // why it was ended, for its closing line
}

// newSession is a session of a flow, in the clear, that begins with prefix, which was read before.
func newSession(f *flow, fixed *policy.Request, prefix []byte) *session {
	return &session{f: f, fixed: fixed, prefix: prefix, closed: make(chan struct{})}
}

// finish lets serve return; false says that it has been let already.
func (s *session) finish() (first bool) {
	s.once.Do(func() {
		close(s.closed)
		first = true
	})
	return first
}

// failed notes the first failure, if err is one, and returns it.
func (s *session) failed(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		s.failure = err
	}
	return s.failure
}

// answers says whether a client is told what is refused: one that knows of the
// proxy, or that takes what we say for what the server says. Else the connection is reset.
func (s *session) answers() bool { return s.fixed == nil || s.secure }

// gateConn is a connection of HTTP/1 as the HTTP server sees it: behind a gate.
type gateConn struct {
	net.Conn
	*session
	refused bool // and recorded; for the goroutine that reads
}

// Read is called by one goroutine at a time, as the server does.
func (c *gateConn) Read(p []byte) (int, error) {
	n, err := c.gate.Read(p)
	if left := c.left.Load(); left != nil {
		left.Out.Add(int64(n))
	}
	var refused *sniff.Error
	if errors.As(err, &refused) {
		c.refuse(refused)
	}
	if err == io.EOF && !c.answers() && c.asked.Load() > 0 && c.left.Load() == nil {
		err = c.f.awaitAnswer()
	}
	return n, err
}

// awaitAnswer keeps a request from being given up when its client has said all that it has to say
// and waits for the answer (shutdown(2) with SHUT_WR). The HTTP server would take it to be gone. It
// ends its reading, by a deadline in the past, when it has answered.
func (f *flow) awaitAnswer() error {
	waiting, ok := f.client.(syscall.Conn)
	if !ok {
		return io.EOF
	}
	raw, err := waiting.SyscallConn()
	if err != nil {
		return io.EOF
	}
	seen := f.counts.In.Load()
	var silent *time.Timer
	silent = time.AfterFunc(deadline.Progress, func() {
		if now := f.counts.In.Load(); now != seen {
			seen = now
			silent.Reset(deadline.Progress)
			return
		}
		f.kill() // the client may be gone
	})
	defer silent.Stop()
	return raw.Read(func(uintptr) bool { return false }) // until the deadline, or the connection is closed
}

func (c *gateConn) Write(p []byte) (int, error) {
	const version = len("HTTP/1.1")
	if told := c.told.Load(); told != nil && len(p) > version && bytes.HasPrefix(p[version:], []byte(forbidden)) {
		line := append(bytes.Clone(p[:version]), *told...)
		if _, err := c.Conn.Write(append(line, p[version+len(forbidden):]...)); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	n, err := c.Conn.Write(p)
	if left := c.left.Load(); left != nil {
		left.In.Add(int64(n))
	}
	return n, err
}

// refuse records what the gate does not let pass, and ends the connection. The
// server reads ahead while a request is answered: it comes again when that is over.
func (c *gateConn) refuse(refused *sniff.Error) {
	if !c.refused {
		c.refused = true
		event := audit.Event{Kind: audit.HTTP}
		if c.fixed != nil {
			event.Host, event.Port = c.fixed.Dest(), c.fixed.Port
		}
		c.failed(c.f.deny(event, policy.Decision{Rule: refused.Rule, Reason: refused.Reason}))
	}
	switch {
	case !c.answers():
		c.reset()
	case c.asked.Load() == 0:
		status, text := http.StatusBadRequest, fmt.Sprintf("forage: denied (%s): %s\n", refused.Rule, refused.Reason)
		if refused.Rule == policy.RuleMalformed || refused.Rule == ruleHost {
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

// protocols are those that can be looked into, as ALPN names them (RFC 7301).
var protocols = []string{protocolHTTP2, "http/1.1"}

const protocolHTTP2 = "h2"

// looksInto says whether each request to a destination has to be looked at, so that moving its bytes
// is not enough. Of a host with a secret, so are the ports that no rule names: many services answer
// at more than one port, and the agent must not bring a credential of its own to the other.
func (e *Engine) looksInto(r policy.Request, d policy.Decision) bool {
	set := e.rules.Load().secrets
	return d.Inspect || set.For(r.Dest(), r.Port) != nil || !d.Port && set.Near(r.Dest()) != nil ||
		e.config.Account.Budget() && meter.Metered(r.Host)
}

// isOwnService says whether a destination is a service of this machine, so that what is
// said to it in the clear stays on this machine.
func isOwnService(r policy.Request) bool {
	return r.Host == policy.HostName || r.Addr.IsValid() && policy.Classify(r.Addr) == policy.Loopback
}

// inspectClear is for a connection that has to be looked into, and that does not
// begin with TLS: where that is in order it is HTTP.
func (f *flow) inspectClear(r policy.Request, d policy.Decision, prefix []byte) (*session, error) {
	set := f.e.rules.Load().secrets
	bound := set.For(r.Dest(), r.Port) != nil
	if r.Port == tlsPort || !isOwnService(r) && (bound || !d.Inspect) {
		reason := "what the client sends first is not TLS"
		if r.Port != tlsPort && !bound && !d.Port && set.Near(r.Dest()) != nil {
			reason += fmt.Sprintf("; a secret is bound to this host: what else it serves has to be allowed with its port, as %s", r.Authority())
		}
		return nil, f.denyRequest(r, "not-tls", reason)
	}
	return newSession(f, &r, prefix), nil
}

// intercept ends the client's TLS here, as the server r. prefix is what was
// read, and checked, of it before.
func (f *flow) intercept(r policy.Request, prefix []byte) (*session, error) {
	authority := f.e.config.Authority
	if authority == nil {
		return nil, f.denyRequest(r, "not-inspected", "requests to it have to be looked at, and this sandbox trusts no authority for that")
	}
	s := newSession(f, &r, nil)
	s.secure = true
	conn := tls.Server(&wire{Conn: f.client, s: s, prefix: prefix}, authority.Config(r.Dest(), protocols))
	if err := f.client.SetDeadline(time.Now().Add(f.e.config.SniffTimeout)); err != nil {
		return nil, err
	}
	if err := conn.HandshakeContext(f.ctx); err != nil {
		// OpenSSL's alert of TLS 1.3 is in the clear and is not understood; Node sends none.
		return nil, fmt.Errorf("TLS with the client: %w: does it trust the sandbox's authority?", err)
	}
	s.tls = conn
	return s, f.client.SetDeadline(time.Time{})
}

// peek says whether the client begins with TLS. It returns all that was read.
func (f *flow) peek(r policy.Request, prefix []byte) (isTLS bool, wire []byte, err error) {
	if len(prefix) == 0 {
		prefix = make([]byte, 1)
		err = f.readFirst(r, func() error {
			_, err := f.client.Read(prefix)
			return err
		})
	}
	return prefix[0] == sniff.FirstOfTLS, prefix, err
}

// readFirst reads what the client has to say first, within the time that it has for that.
func (f *flow) readFirst(r policy.Request, read func() error) error {
	if err := f.client.SetReadDeadline(time.Now().Add(f.e.config.SniffTimeout)); err != nil {
		return err
	}
	err := read()
	var refused *sniff.Error
	switch {
	case errors.As(err, &refused):
		return f.denyRequest(r, refused.Rule, refused.Reason)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return f.denyRequest(r, "sniff-timeout", "the client did not say whom it means in time")
	case err != nil:
		return fmt.Errorf("the client left before it said whom it means: %w", err)
	}
	return f.client.SetReadDeadline(time.Time{})
}

// wire is a connection from inside, beginning with what was read from it
// before. It counts what is moved.
type wire struct {
	net.Conn
	s      *session
	prefix []byte
}

func (c *wire) Read(p []byte) (n int, err error) {
	if len(c.prefix) > 0 {
		n = copy(p, c.prefix)
		c.prefix = c.prefix[n:]
	} else {
		n, err = c.Conn.Read(p)
	}
	return n, c.moved(&c.s.f.counts.Out, n, err)
}

func (c *wire) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.moved(&c.s.f.counts.In, n, err)
}

// moved counts bytes, and ends the connection when they are too many.
func (c *wire) moved(count *relay.Counter, n int, err error) error {
	if spent := count.Moved(n); spent != nil {
		c.s.failed(spent)
		c.s.f.kill()
		return spent
	}
	return err
}

func (c *wire) Close() error {
	err := c.Conn.Close()
	c.s.finish()
	return err
}

// reset ends the session's connection at once.
func (s *session) reset() {
	relay.Reset(s.f.client)
	s.finish()
}
