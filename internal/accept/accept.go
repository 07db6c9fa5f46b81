// Package accept lets connections in, through moments in which there is no room for one more too.
package accept

import (
	"context"
	"errors"
	"net"
	"sync"
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

// Server serves the connections to a listener.
type Server struct {
	listener net.Listener
	cancel   context.CancelFunc
	served   sync.WaitGroup
}

// Serve calls serve with each connection to listener, in a goroutine of its own, and closes the
// connection then. The context ends with the server.
func Serve(listener net.Listener, serve func(context.Context, net.Conn)) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{listener: listener, cancel: cancel}
	s.served.Go(func() {
		Each(ctx.Done(), listener, func(conn net.Conn) {
			s.served.Go(func() {
				defer conn.Close()
				serve(ctx, conn)
			})
		})
	})
	return s
}

// Close ends the listener and the context, and waits until every connection has been served.
func (s *Server) Close() error {
	s.cancel()
	err := s.listener.Close()
	s.served.Wait()
	return err
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }
