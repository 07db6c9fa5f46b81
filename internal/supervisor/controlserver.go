package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"forage"
	"forage/internal/accept"
	"forage/internal/deadline"
	"forage/internal/unixsock"
)

// controlServer serves the control socket of one sandbox. Only processes of this
// user, or root, are answered (unix(7), SO_PEERCRED).
type controlServer struct {
	listener *net.UnixListener
	handle   func(context.Context, Request) (Response, error)
	ctx      context.Context
	cancel   context.CancelFunc
	served   sync.WaitGroup
}

func newControlServer(dir string, handle func(context.Context, Request) (Response, error)) (*controlServer, error) {
	listener, err := unixsock.Listen(filepath.Join(dir, controlName))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &controlServer{listener: listener, handle: handle, ctx: ctx, cancel: cancel}
	c.served.Go(func() { accept.Each(ctx.Done(), listener, c.serve) })
	return c, nil
}

// Close stops listening and waits until every request has been answered.
func (c *controlServer) Close() error {
	c.cancel()
	err := c.listener.Close()
	c.served.Wait()
	return err
}

func (c *controlServer) serve(conn net.Conn) {
	c.served.Go(func() {
		defer conn.Close()
		c.answer(conn.(*net.UnixConn))
	})
}

func (c *controlServer) answer(conn *net.UnixConn) {
	request, err := receive(conn)
	var response Response
	if err == nil {
		response, err = c.handle(c.ctx, request)
	}
	response.Failure = failure(err)
	conn.SetWriteDeadline(time.Now().Add(deadline.Answer))
	json.NewEncoder(conn).Encode(response) // a client that has gone needs no answer
}

func receive(conn *net.UnixConn) (Request, error) {
	peer, err := unixsock.Peer(conn)
	if err != nil {
		return Request{}, fmt.Errorf("asking who is calling: %w", err)
	}
	if int(peer.Uid) != os.Getuid() && peer.Uid != 0 {
		return Request{}, forage.Errorf(forage.ErrDenied, "user %d may not control this sandbox", peer.Uid)
	}
	conn.SetReadDeadline(time.Now().Add(deadline.Answer))
	decoder := json.NewDecoder(io.LimitReader(conn, maxMessage))
	decoder.DisallowUnknownFields()
	var request Request
	if err := decoder.Decode(&request); err != nil {
		return Request{}, forage.Errorf(forage.ErrUsage, "reading the request: %w", err)
	}
	return request, nil
}
