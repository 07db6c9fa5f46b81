package guestclient

import (
	"context"
	"net"

	"golang.org/x/crypto/ssh"

	accepting "forage/internal/accept"
	"forage/internal/deadline"
	"forage/internal/guest/wire"
)

// maxForwarded is how many connections are forwarded at once: the guest takes 256 channels.
const maxForwarded = 200

// Forward connects each connection to listener with the server on port of the sandbox's loopback,
// until ctx or the connection to the guest ends. It closes listener.
func (c *Client) Forward(ctx context.Context, listener *net.TCPListener, port int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		c.conn.Wait()
		cancel(ErrLost)
	}()
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	free := make(chan struct{}, maxForwarded)
	accepting.Each(ctx.Done(), listener, func(conn net.Conn) {
		select {
		case free <- struct{}{}:
			go func() {
				defer func() { <-free }()
				c.forward(ctx, conn.(*net.TCPConn), port)
			}()
		default:
			conn.Close()
		}
	})
	return context.Cause(ctx)
}

// forward connects one connection; one that no server inside takes is reset.
func (c *Client) forward(ctx context.Context, conn *net.TCPConn, port int) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	timely := deadline.Drop(ctx, deadline.Answer, c.conn)
	channel, requests, err := c.conn.OpenChannel("direct-tcpip", ssh.Marshal(struct { // RFC 4254, section 7.2
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}{"localhost", uint32(port), "localhost", 0}))
	timely()
	if err != nil {
		conn.SetLinger(0)
		return
	}
	wire.Join(channel, requests, conn, func() { conn.CloseRead() })
}
