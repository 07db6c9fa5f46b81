// Package gateway is one SSH port for all sandboxes of a user. It logs in holders of authorized
// keys, and leads each of their channels to the SSH server of the sandbox that is asked for, which
// runs programs, reaches files and forwards connections. It holds no state: it can be restarted.
//
// The user name says which sandbox is meant (ssh work@host), or the command does (ssh forage@host
// work). A sandbox is hostile: it opens no channel towards a client that did not ask for one and may
// have it, and what it sends to a client's terminal is filtered as on the host.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/time/rate"

	"forage"
	"forage/internal/accept"
	"forage/internal/audit"
	"forage/internal/deadline"
	"forage/internal/guest/guestclient"
	"forage/internal/guest/wire"
	"forage/internal/sshkeys"
	"forage/internal/term"
)

// AnySandbox is the user name of who names no sandbox by it.
const AnySandbox = "forage"

// Bounds on what clients may hold at once.
const (
	maxConns    = 256 // connections
	maxStrange  = 32  // of those, not logged in yet
	maxChannels = 64  // channels of one connection
)

// An address that offers wrong keys has this many tries, and one more every retryAfter.
const (
	tries      = 10
	retryAfter = 10 * time.Second
	maxTried   = 4096 // addresses that are remembered
)

// refusalsBurst is how many refused logins are logged at once; then it is one a second.
const refusalsBurst = 20

// What the holder of a limited key asks for is put on a sandbox's record, also what is refused. It
// must not fill that, whose end is the end of the sandbox's traffic: after a burst they wait.
const (
	asksPerSecond = 5
	asksBurst     = 64
)

// Sandboxes is what the gateway needs of them.
type Sandboxes interface {
	// Names are those that there are, by name.
	Names() ([]string, error)
	// Record puts an event on a running sandbox's record. When it fails, it must not happen.
	Record(ctx context.Context, name string, event audit.Event) error
	// Connect logs in to a running sandbox, with its host key pinned.
	Connect(ctx context.Context, name string) (*guestclient.Client, error)
	// Dial connects to a running sandbox's SSH server, for who logs in there with a key of their own.
	Dial(ctx context.Context, name string) (net.Conn, error)
	// Screen lets through what programs inside may do to the terminal that out is.
	Screen(name string) func(out io.Writer) *term.Controls
	// Forwards says whether the sandbox's template lets clients have that forwarded from inside to
	// them: see forage.Plan.SSHForward.
	Forwards(name, what string) bool
	// AttachCommand is the program inside that shows the agent's session.
	AttachCommand(readOnly bool) []string
}

// Options is what a Server needs.
type Options struct {
	HostKey   ssh.Signer
	Keys      func() ([]string, error) // lines of authorized_keys; asked at each login
	Sandboxes Sandboxes
	Picker    []string // arguments of this program that show the screen of all sandboxes; none: no screen
	Log       *slog.Logger
}

// Server serves clients.
type Server struct {
	Options
	slots   chan struct{} // of connections
	strange chan struct{} // of connections that are not logged in

	mu    sync.Mutex
	tried map[string]*rate.Limiter // wrong keys, by address
	asked map[string]*rate.Limiter // of limited keys, by fingerprint

	refusals *rate.Limiter // that are logged
	unlogged atomic.Int64  // that were not, since the last one
}

// New makes a server.
func New(options Options) *Server {
	return &Server{
		Options: options, slots: make(chan struct{}, maxConns), strange: make(chan struct{}, maxStrange),
		tried: map[string]*rate.Limiter{}, asked: map[string]*rate.Limiter{}, refusals: rate.NewLimiter(1, refusalsBurst),
	}
}

// Serve serves connections until ctx ends, which ends them too: what runs in a sandbox's session
// goes on.
func (s *Server) Serve(ctx context.Context, listener net.Listener) {
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	var served sync.WaitGroup
	defer served.Wait()
	accept.Each(ctx.Done(), listener, func(conn net.Conn) {
		select {
		case s.slots <- struct{}{}:
			served.Go(func() {
				defer func() { <-s.slots }()
				s.serve(ctx, conn)
			})
		default:
			conn.Close()
		}
	})
}

func (s *Server) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	logged, channels, requests, err := s.login(conn)
	if err != nil {
		s.refuse(conn, err)
		return
	}
	c := &client{
		server: s, conn: logged, key: logged.Permissions.ExtraData[keyData{}].(sshkeys.Authorized),
		guests: map[string]*guestclient.Client{}, listening: map[forwarded]func(){},
	}
	if logged.User() != AnySandbox {
		c.named = logged.User()
	}
	log := s.Log.With("from", conn.RemoteAddr().String(), "user", logged.User(), "key", c.key.Fingerprint())
	log.Info("logged in")
	defer log.Info("logged out")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go c.requests(ctx, requests)
	open := make(chan struct{}, maxChannels)
	for channel := range channels {
		select {
		case open <- struct{}{}:
			go func() {
				defer func() { <-open }()
				c.channel(ctx, channel)
			}()
		default:
			channel.Reject(ssh.ResourceShortage, "too many channels")
		}
	}
}

// refuse logs that a connection did not log in: a line for each, but so many a second, since anybody
// can connect.
func (s *Server) refuse(conn net.Conn, err error) {
	if !s.refusals.Allow() {
		s.unlogged.Add(1)
		return
	}
	if auth := (*ssh.ServerAuthError)(nil); errors.As(err, &auth) && len(auth.Errors) > 0 {
		err = fmt.Errorf("tries: %d, the last: %w", len(auth.Errors), auth.Errors[len(auth.Errors)-1])
	}
	s.Log.Info("refused", "from", conn.RemoteAddr(), "reason", fmt.Sprintf("%.300s", err), "unlogged", s.unlogged.Swap(0))
}

// keyData is under what a login keeps its key.
type keyData struct{}

func (s *Server) login(conn net.Conn) (*ssh.ServerConn, <-chan ssh.NewChannel, <-chan *ssh.Request, error) {
	select {
	case s.strange <- struct{}{}:
		defer func() { <-s.strange }()
	default:
		return nil, nil, nil, errors.New("too many connections are logging in")
	}
	address, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return nil, nil, nil, err
	}
	if s.wrongKeys(address).Tokens() < 1 {
		return nil, nil, nil, errors.New("too many wrong keys from this address")
	}
	lines, err := s.Keys()
	if err != nil {
		return nil, nil, nil, err
	}
	keys := map[string]sshkeys.Authorized{}
	for _, line := range lines {
		key, err := sshkeys.ParseAuthorized(line)
		if err != nil {
			return nil, nil, nil, err
		}
		keys[string(key.Public.Marshal())] = key
	}
	config := &ssh.ServerConfig{
		Config:        wire.Algorithms(),
		MaxAuthTries:  tries,
		ServerVersion: "SSH-2.0-OpenSSH_forage", // its own client tells only such servers that output has no reader any more
		PublicKeyCallback: func(_ ssh.ConnMetadata, offered ssh.PublicKey) (*ssh.Permissions, error) {
			key, known := keys[string(offered.Marshal())]
			if !known {
				return nil, fmt.Errorf("the key %s is not authorized", ssh.FingerprintSHA256(offered))
			}
			return &ssh.Permissions{ExtraData: map[any]any{keyData{}: key}}, nil
		},
	}
	config.AddHostKey(s.HostKey)
	conn.SetDeadline(time.Now().Add(deadline.Answer))
	defer conn.SetDeadline(time.Time{})
	logged, channels, requests, err := ssh.NewServerConn(wire.Buffered(conn), config)
	if err != nil {
		s.wrongKeys(address).Allow()
	}
	return logged, channels, requests, err
}

// wrongKeys counts an address's connections that did not log in.
func (s *Server) wrongKeys(address string) *rate.Limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tried[address] == nil {
		if len(s.tried) >= maxTried {
			maps.DeleteFunc(s.tried, func(_ string, l *rate.Limiter) bool { return l.Tokens() >= tries })
		}
		if len(s.tried) >= maxTried {
			clear(s.tried)
		}
		s.tried[address] = rate.NewLimiter(rate.Every(retryAfter), tries)
	}
	return s.tried[address]
}

// client is one connection, logged in.
type client struct {
	server *Server
	conn   ssh.Conn
	key    sshkeys.Authorized
	named  string // the sandbox that the user name says; "" if it says none

	listening map[forwarded]func() // ports that are forwarded to it, with what ends that

	mu      sync.Mutex
	guests  map[string]*guestclient.Client // connections to sandboxes, by name
	refused error                          // why a port is not forwarded; the next session says it
}

// asks counts what the holders of a key ask for.
func (s *Server) asks(key sshkeys.Authorized) *rate.Limiter {
	if !key.ReadOnly && len(key.Sandboxes) == 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := key.Fingerprint()
	if s.asked[id] == nil {
		s.asked[id] = rate.NewLimiter(asksPerSecond, asksBurst)
	}
	return s.asked[id]
}

// allow puts what the key's holder is about to do on the sandbox's record. It fails when the key
// may not.
func (c *client) allow(ctx context.Context, name, method, what string, looking bool) error {
	event := audit.Event{Kind: audit.Exec, Verdict: "allow", Method: "gateway " + method, Path: what, Reason: "key " + c.key.Fingerprint()}
	if err := c.server.asks(c.key).Wait(ctx); err != nil {
		return err
	}
	var denied error
	if !c.key.May(name) {
		denied = forage.Errorf(forage.ErrDenied, "your key may not reach %q", name)
	} else if c.key.ReadOnly && !looking {
		denied = forage.Errorf(forage.ErrDenied, "your key may only look")
	} else if kind, toClient := strings.CutPrefix(method, "forward "); toClient && !c.server.Sandboxes.Forwards(name, kind) {
		denied = forage.WithHint(forage.Errorf(forage.ErrDenied, "%s forwards no %s to you", name, kind),
			fmt.Sprintf("sshForward = [%q] in its template allows that for new sandboxes", kind))
	}
	if denied != nil {
		event.Verdict = "deny"
		_ = c.server.Sandboxes.Record(ctx, name, event) // which may not exist
		return denied
	}
	err := c.server.Sandboxes.Record(ctx, name, event)
	if errors.Is(err, forage.ErrNotFound) { // the hint that it has may name what the key may not reach
		return c.which(err)
	}
	return err
}

// open opens a channel to a sandbox's SSH server, over one connection for all of the client's.
func (c *client) open(ctx context.Context, name, kind string, data []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	c.mu.Lock()
	guest := c.guests[name]
	c.mu.Unlock()
	if guest != nil {
		channel, requests, err := guest.Open(kind, data)
		if refused := (*ssh.OpenChannelError)(nil); err == nil || errors.As(err, &refused) {
			return channel, requests, err
		}
	} // the sandbox was started again meanwhile
	made, err := c.server.Sandboxes.Connect(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	if c.guests[name] == guest {
		c.guests[name] = made
		context.AfterFunc(ctx, func() { made.Close() })
	} else { // another channel of the client was quicker
		made.Close()
		made = c.guests[name]
	}
	c.mu.Unlock()
	return made.Open(kind, data)
}
