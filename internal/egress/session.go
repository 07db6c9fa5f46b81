package egress

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"forage/internal/audit"
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
	return n, err
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
