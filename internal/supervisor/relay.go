package supervisor

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync"

	"golang.org/x/time/rate"

	"forage"
	"forage/internal/accept"
	"forage/internal/audit"
	"forage/internal/unixsock"
)

// maxRelayed bounds the connections to a sandbox's SSH port at one time.
const maxRelayed = 64

// What every user of the host can connect to must not fill the audit log, whose
// end is the end of the sandbox's traffic: after a burst, connections beyond this many
// in a second are closed unrecorded, as they lead nowhere.
const (
	relayedPerSecond = 5
	relayedBurst     = 64
)

// relay leads connections from the sandbox's TCP port on the host to the
// guest's SSH socket. Whoever connects still has to hold a key.
type relay struct {
	listener net.Listener
	socket   string
	record   func(audit.Event) error
	slots    chan struct{}
	rate     *rate.Limiter
	ctx      context.Context
	cancel   context.CancelFunc
	served   sync.WaitGroup
}

// newRelay listens on listen:port.
func newRelay(listen string, port int, socket string, record func(audit.Event) error) (*relay, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(listen, strconv.Itoa(port)))
	if err != nil {
		return nil, forage.Errorf(forage.ErrNoPort, "listening on the sandbox's SSH port: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &relay{listener: listener, socket: socket, record: record, slots: make(chan struct{}, maxRelayed),
		rate: rate.NewLimiter(relayedPerSecond, relayedBurst), ctx: ctx, cancel: cancel}
	r.served.Go(func() { accept.Each(ctx.Done(), listener, r.admit) })
	return r, nil
}

// Close ends the listener and every connection.
func (r *relay) Close() error {
	r.cancel()
	err := r.listener.Close()
	r.served.Wait()
	return err
}

func (r *relay) admit(conn net.Conn) {
	if !r.rate.Allow() {
		conn.Close()
		return
	}
	select {
	case r.slots <- struct{}{}:
		r.served.Go(func() {
			defer func() { <-r.slots }()
			r.serve(conn)
		})
	default:
		conn.Close()
	}
}

func (r *relay) serve(conn net.Conn) {
	defer conn.Close()
	if r.record(audit.Event{Kind: audit.Exec, Verdict: "allow", Method: "ssh", Reason: "connection to the SSH port"}) != nil {
		return
	}
	guest, err := unixsock.Dial(r.ctx, r.socket)
	if err != nil {
		return
	}
	defer guest.Close()
	stop := context.AfterFunc(r.ctx, func() { conn.Close(); guest.Close() })
	defer stop()
	join(conn.(*net.TCPConn), guest)
}

// join copies both ways until both sides have ended; each half is closed as
// its source ends.
func join(a *net.TCPConn, b *net.UnixConn) {
	var copies sync.WaitGroup
	copies.Go(func() {
		io.Copy(a, b)
		a.CloseWrite()
	})
	io.Copy(b, a)
	b.CloseWrite()
	copies.Wait()
}
