// Package accept lets connections in, through moments in which there is no room for one more too.
package accept

import (
	"errors"
	"net"
	"time"
)

// Pauses between tries, doubled from the first to the last, while there is no room.
const (
	shortest = 5 * time.Millisecond
	longest  = time.Second
)

// Each calls serve, which must not hold it up, with each connection to a listener, until that is
// closed or done is (nil: never). While there is no room for one more (accept(2): EMFILE, ENFILE,
// ENOBUFS, ENOMEM), clients wait: the loop must not end.
func Each(done <-chan struct{}, listener net.Listener, serve func(net.Conn)) {
	for pause := shortest; ; {
		conn, err := listener.Accept()
		switch {
		case err == nil:
			pause = shortest
			serve(conn)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			select {
			case <-time.After(pause):
			case <-done:
				return
			}
			pause = min(2*pause, longest)
		}
	}
}
