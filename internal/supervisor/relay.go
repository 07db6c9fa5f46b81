package supervisor

import (
	"context"
	"net"
	"strconv"

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

// newRelay leads connections from the sandbox's TCP port on the host, listen:port, to the guest's SSH
// socket. Each client still has to hold a key.
func newRelay(listen string, port int, dial func(context.Context) (net.Conn, error), record func(audit.Event) error) (*accept.Server, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(listen, strconv.Itoa(port)))
	if err != nil {
		return nil, forage.Errorf(forage.ErrNoPort, "listening on the sandbox's SSH port: %w", err)
	}
	recorded, slots := rate.NewLimiter(relayedPerSecond, relayedBurst), make(chan struct{}, maxRelayed)
	return accept.Serve(listener, func(ctx context.Context, conn net.Conn) {
		if !recorded.Allow() {
			return
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			return
		}
		if record(audit.Event{Kind: audit.Exec, Verdict: "allow", Method: "ssh", Reason: "connection to the SSH port"}) != nil {
			return
		}
		inside, err := dial(ctx)
		if err != nil {
			return
		}
		defer inside.Close()
		stop := context.AfterFunc(ctx, func() { conn.Close(); inside.Close() })
		defer stop()
		if guest.ForSSH(inside) == nil {
			mux.Join(conn, inside)
		}
	}), nil
}
