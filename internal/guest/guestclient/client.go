// Package guestclient is the host's end of a connection to a guest: it runs programs inside as if
// they were local, and reaches files. The guest is hostile: nothing is forwarded to it, it can open
// nothing, and every wait for it is bounded but the one for a program to end. Text in errors may be
// the guest's: it is escaped where it is printed.
package guestclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"forage/internal/deadline"
	"forage/internal/guest/wire"
	"forage/internal/unixsock"
)

// Client is a connection to a guest. Several programs may run over it at once.
type Client struct {
	conn *wire.Conn
	sock net.Conn // below conn
}

// Dial connects to the guest behind the unix socket at path, whatever its length. Who may reach
// that socket is its user.
func Dial(ctx context.Context, path string) (*Client, error) {
	conn, err := unixsock.Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	return New(conn)
}

// DialSSH is Dial for a client of another's, which speaks SSH over the connection and logs in.
func DialSSH(ctx context.Context, path string) (net.Conn, error) {
	conn, err := unixsock.Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	return conn, wire.Dial(conn, wire.SSH)
}

// New speaks to the guest at the other end of conn, which the client owns from then on.
func New(conn net.Conn) (*Client, error) {
	if err := wire.Dial(conn, wire.Plain); err != nil {
		return nil, err
	}
	return &Client{wire.NewConn(conn, false), conn}, nil
}

// Close ends the connection and with it all programs that run over it.
func (c *Client) Close() error { return c.conn.Close() }

// GuestDied says that the guest is dead, although its end of the connection may be open still, in a
// message that is never received (unix(7), SCM_RIGHTS): what has come is read, and then the
// connection ends.
func (c *Client) GuestDied() {
	halves, ok := c.sock.(interface {
		CloseRead() error
		CloseWrite() error
	})
	if !ok {
		c.sock.Close()
		return
	}
	halves.CloseRead()
	halves.CloseWrite()
}

// SFTP opens the sandbox's files, relative to its working directory. The names and
// contents that come back are the sandbox's: they are not to be trusted as paths. Closing it
// leaves the connection open.
func (c *Client) SFTP(ctx context.Context) (*sftp.Client, error) {
	return c.files(ctx, new(atomic.Int64))
}

func (c *Client) files(ctx context.Context, left *atomic.Int64, options ...sftp.ClientOption) (*sftp.Client, error) {
	channel, err := c.open(ctx, ssh.DiscardRequests, func(channel ssh.Channel) (bool, error) {
		return channel.SendRequest("subsystem", true, ssh.Marshal(struct{ Name string }{"sftp"}))
	})
	if err != nil {
		return nil, fmt.Errorf("opening the sandbox's files: %w", err)
	}
	defer deadline.Drop(ctx, deadline.Answer, c.conn)()
	client, err := sftp.NewClientPipe(metered{channel, left}, channel, options...)
	if err != nil {
		channel.Close()
		return nil, fmt.Errorf("opening the sandbox's files: %w", err)
	}
	return client, nil
}

// open opens a session channel and starts what start asks for. What the guest
// says about the channel goes to follow, from the first moment: unread it would hold
// up everything else.
func (c *Client) open(ctx context.Context, follow func(<-chan *ssh.Request), start func(ssh.Channel) (bool, error)) (ssh.Channel, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	defer deadline.Drop(ctx, deadline.Answer, c.conn)()
	channel, requests, err := c.conn.OpenChannel("session", nil)
	if err != nil {
		return nil, whyBroken(ctx, err)
	}
	go follow(requests)
	ok, err := start(channel)
	if err == nil && !ok {
		err = errors.New("the sandbox refused the request")
	}
	if err != nil {
		channel.Close()
		return nil, whyBroken(ctx, err)
	}
	return channel, nil
}

// closeChannel closes a channel. A guest that takes nothing any more loses the connection.
func (c *Client) closeChannel(channel ssh.Channel) {
	defer deadline.Drop(context.Background(), deadline.End, c.conn)()
	channel.Close()
}

func whyBroken(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed):
		return ErrLost
	}
	return err
}

// Open opens a channel of any kind, for who serves a client of their own over it (RFC 4254, section
// 5.1). Requests of the guest must be read.
func (c *Client) Open(kind string, data []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	return c.conn.OpenChannel(kind, data)
}
