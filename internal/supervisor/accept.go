package supervisor

import (
	"context"
	"errors"
	"net"
	"time"
)

// acceptPause is how long accepting waits when there is no room for one more connection.
const acceptPause = 20 * time.Millisecond

// accept serves each connection to a listener, until that is closed or ctx is done. While there is no room for one
// more (accept(2): EMFILE, ENFILE, ENOBUFS, ENOMEM), who connects waits: a door that nobody opens any more would
// be there for the rest of the sandbox's life.
func accept(ctx context.Context, listener net.Listener, serve func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		switch {
		case err == nil:
			serve(conn)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
				return
			}
		}
	}
}
