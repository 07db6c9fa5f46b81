// Package proxy runs egress as a service of its own: for containers and
// machines that have no supervisor, and reach it by TCP or a unix socket. Each client has an
// engine of its own, with its policy, secrets, authority, account and audit log, and
// nothing of another's.
//
// A connection is served once its client has proved who it is: by a token on loopback and
// unix sockets, by a certificate over TLS. The first request is read here, strictly, within
// bounds of time and size; then the connection is the engine's, which asks again about
// each request on it. Nothing else that a request says of its sender counts.
//
// The configuration may change while it runs: streams that it still allows go on. One that is wrong
// changes nothing. This package decides nothing about destinations.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"forage"
	"forage/internal/audit"
	"forage/internal/config"
	"forage/internal/deadline"
	"forage/internal/tail"
	"forage/internal/unixsock"
)

// Bounds.
const (
	maxPending = 256 // connections that have not said yet who they are

	// Refusals beyond these wait, so that strangers can neither guess tokens nor
	// fill the disk with audit lines any faster.
	refusalsPerSecond = 2
	refusalBurst      = 50
)

// serviceLog is the service's own audit log, which is no client's name.
const serviceLog = "_proxy.audit.jsonl"

// Options are what a Service needs.
type Options struct {
	// Load reads the configuration: at the start, and again whenever it may have changed.
	Load func() (*config.Config, error)
	// Watch are the files that Load reads, those that are not there included.
	Watch []string
	// Getenv is the environment of the service, in which tokens and secrets may be.
	Getenv func(string) (string, bool)
	Home   string // the user's, for logins that are in their usual places; "" is none
	Log    *slog.Logger
	// Hangup asks for a reload.
	Hangup <-chan os.Signal
	// Drain bounds the wait for streams at the end; 0 is 10 s.
	Drain time.Duration

	headTimeout  time.Duration // 0 is deadline.Answer
	tokenTimeout time.Duration // 0 is deadline.Answer
	dial         dialer        // of engines, for tests
}

// Service is a proxy that runs.
type Service struct {
	options  Options
	life     context.Context // done when it is to end
	end      context.CancelFunc
	log      *slog.Logger
	notify   notifier
	audit    *audit.Log
	files    *tail.Files
	refusals *rate.Limiter
	unsaid   atomic.Int64 // refusals that are not in the log yet
	pending  *pending
	running  sync.WaitGroup // what accepts and greets

	who     atomic.Pointer[identities]
	tls     atomic.Pointer[tlsSide]
	dir     string // of audit logs
	changes chan struct{}

	mu        sync.Mutex
	clients   map[string]*client
	listeners map[string]net.Listener
	inherited map[string]net.Listener // of a service manager, until they are taken over
	closed    bool
}

// Run serves until ctx is done, then lets streams end for a while. The error
// is what kept it from starting, or what could not be taken back.
func Run(ctx context.Context, options Options) error {
	s, err := start(options)
	if err != nil {
		return err
	}
	return s.run(ctx)
}

// start begins to serve.
func start(options Options) (_ *Service, err error) {
	if options.Drain <= 0 {
		options.Drain = deadline.Answer
	}
	if options.headTimeout <= 0 {
		options.headTimeout = deadline.Answer
	}
	if options.tokenTimeout <= 0 {
		options.tokenTimeout = deadline.Answer
	}
	s := &Service{
		options: options, log: options.Log,
		refusals: rate.NewLimiter(refusalsPerSecond, refusalBurst),
		pending:  newPending(maxPending),
		changes:  make(chan struct{}, 1),
		clients:  map[string]*client{}, listeners: map[string]net.Listener{},
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.notify.find(options.Getenv)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.files, err = tail.WatchFiles(); err != nil {
		return nil, err
	}
	_ = s.files.Set(options.Watch) // before they are read, so that no change is missed; apply tells what can't be watched
	loaded, err := options.Load()
	if err != nil {
		return nil, err
	}
	if loaded.Proxy == nil {
		return nil, forage.WithHint(
			forage.Errorf(forage.ErrUsage, "the configuration has no [proxy]"),
			"`forage-ctl config init` writes an example; docs/how-to/proxy.md explains it")
	}
	s.dir = loaded.Proxy.AuditDir
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("making proxy.auditDir: %w", err)
	}
	// The lock of this log also keeps a second service from taking over our sockets.
	if s.audit, err = audit.Open(filepath.Join(s.dir, serviceLog), "_proxy"); err != nil {
		return nil, forage.WithHint(err, "one proxy at a time uses "+s.dir+": stop the other, or give this one another proxy.auditDir")
	}
	if s.inherited, err = inherited(options.Getenv, firstInherited, loaded.Proxy.Listen); err != nil {
		return nil, err
	}
	if err := s.apply(loaded); err != nil {
		return nil, err
	}
	return s, s.record("started; " + s.summary())
}

// run serves until ctx is done.
func (s *Service) run(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.end)()
	watching, stopWatching := context.WithCancel(context.Background())
	watched := make(chan error, 1)
	go func() {
		watched <- s.files.Run(watching, func() {
			select {
			case s.changes <- struct{}{}:
			default: // one is on its way already
			}
		})
	}()
	s.say("READY=1\nSTATUS=" + s.summary())
	s.log.Info("serving", "listen", s.addresses(), "clients", s.names())
	var err error
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-s.options.Hangup:
			s.reload("it was asked to")
		case <-s.changes:
			s.reload("a file has changed")
		case err := <-watched:
			s.log.Error("files are not watched any more: send SIGHUP after a change", "error", err)
			watched = nil
		}
	}
	s.say("STOPPING=1")
	s.log.Info("stopping", "grace", s.options.Drain.String())
	stopWatching()
	if watched != nil {
		err = <-watched
	}
	s.drain()
	return errors.Join(err, s.record("stopped"), s.close())
}

// drain stops accepting, and waits for what is being served, within bounds.
func (s *Service) drain() {
	s.mu.Lock()
	s.closed = true
	closeAll(s.listeners)
	s.mu.Unlock()
	s.pending.close()
	over := time.After(s.options.Drain)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for s.open() > 0 {
		select {
		case <-tick.C:
		case <-over:
			s.log.Info("what is still open is cut", "connections", s.open())
			return
		}
	}
}

// open counts the connections of all clients.
func (s *Service) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := 0
	for _, c := range s.clients {
		count += c.engine.Counters().Open
	}
	return count
}

// close takes everything back.
func (s *Service) close() error {
	s.end()
	s.mu.Lock()
	s.closed = true
	closeAll(s.listeners)
	closeAll(s.inherited) // what was not taken over
	clients := s.clients
	s.clients = map[string]*client{}
	s.mu.Unlock()
	s.pending.close()
	s.running.Wait()
	var errs []error
	for _, c := range clients {
		errs = append(errs, c.close())
	}
	if s.audit != nil {
		errs = append(errs, s.audit.Close())
	}
	if s.files != nil {
		s.files.Close() // Run may have done so
	}
	return errors.Join(errs...)
}

func closeAll(listeners map[string]net.Listener) {
	for name, listener := range listeners {
		closeListener(listener)
		delete(listeners, name)
	}
}

// closeListener closes a listener, and removes its socket.
func closeListener(listener net.Listener) {
	listener.Close()
	if own, ok := listener.(ownSocket); ok {
		os.Remove(own.path) // it leads nowhere now
	}
}

// ownSocket is a unix socket that we have made.
type ownSocket struct {
	*net.UnixListener
	path string
}

// listenAt opens one listener of the configuration.
func (s *Service) listenAt(at config.ProxyListen, mode uint32) (net.Listener, error) {
	if inherited, ok := s.inherited[at.String()]; ok {
		delete(s.inherited, at.String())
		return inherited, nil
	}
	if at.Kind != config.ListenUnix {
		listener, err := net.Listen("tcp", at.Address)
		if err != nil {
			return nil, fmt.Errorf("proxy.listen: %w", err)
		}
		return listener, nil
	}
	if err := freeSocket(at.Address); err != nil {
		return nil, fmt.Errorf("proxy.listen: %w", err)
	}
	listener, err := unixsock.Listen(at.Address)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(at.Address, os.FileMode(mode)); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return ownSocket{listener, at.Address}, nil
}

// freeSocket says whether a socket may be made at path: whatever is there is a socket without a
// listener.
func freeSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != os.ModeSocket:
		return forage.Errorf(forage.ErrRefused, "%s is there, and is no socket", path)
	}
	ctx, cancel := deadline.Within(context.Background(), deadline.End, path)
	defer cancel()
	conn, err := unixsock.Dial(ctx, path)
	switch {
	case errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, os.ErrNotExist): // gone meanwhile
		return nil
	case err == nil:
		conn.Close()
	case !errors.Is(err, unix.EAGAIN): // its queue is full
		return forage.WithHint(err, "remove the socket if it is not needed")
	}
	return forage.Errorf(forage.ErrRefused, "a program listens on %s", path)
}

// record puts a line about the service into its own audit log.
func (s *Service) record(reason string) error {
	return s.audit.Record(audit.Event{Kind: audit.Lifecycle, Verdict: "allow", Reason: reason})
}
