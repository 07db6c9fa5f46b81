package supervisor

import (
	"context"
	"net"
	"strconv"
	"sync"

	"golang.org/x/time/rate"

	"forage"
	"forage/internal/accept"
	"forage/internal/audit"
	"forage/internal/guest"
	"forage/internal/mux"
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

// relay leads connections from the sandbox's TCP port on the host to the guest's SSH socket. Each
// client still has to hold a key.
type relay struct {
	listener net.Listener
	dial     func(context.Context) (net.Conn, error)
	record   func(audit.Event) error
	slots    chan struct{}
	rate     *rate.Limiter
	ctx      context.Context
	cancel   context.CancelFunc
	served   sync.WaitGroup
}

// newRelay listens on listen:port.
func newRelay(listen string, port int, dial func(context.Context) (net.Conn, error), record func(audit.Event) error) (*relay, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(listen, strconv.Itoa(port)))
	if err != nil {
		return nil, forage.Errorf(forage.ErrNoPort, "listening on the sandbox's SSH port: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &relay{listener: listener, dial: dial, record: record, slots: make(chan struct{}, maxRelayed),
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
	inside, err := r.dial(r.ctx)
	if err != nil {
		return
	}
	defer inside.Close()
	stop := context.AfterFunc(r.ctx, func() { conn.Close(); inside.Close() })
	defer stop()
	if guest.ForSSH(inside) == nil {
		mux.Join(conn, inside)
	}
}
