package guestclient

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// deaf is a connection of which nothing is read any more once it is told so, until it is closed.
type deaf struct {
	net.Conn
	told   atomic.Bool
	closed chan struct{}
}

func (d *deaf) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	if d.told.Load() {
		<-d.closed
	}
	return n, err
}

// deafGuest grants a program and takes nothing from then on; the channel gets a value when that is so.
func deafGuest(t *testing.T) (*Client, <-chan struct{}) {
	t.Helper()
	var far *deaf
	granted := make(chan struct{}, 1)
	client := hostileGuestOver(t, func(conn net.Conn) net.Conn {
		far = &deaf{Conn: conn, closed: make(chan struct{})}
		t.Cleanup(func() { close(far.closed) })
		return far
	}, func(_ *ssh.ServerConn, channel ssh.NewChannel) {
		accept(channel)
		far.told.Store(true)
		granted <- struct{}{}
	})
	return client, granted
}

// zeros is input without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A guest that takes nothing any more can be given up, also while what it would have to be told is stuck behind input.
func TestDeafGuest(t *testing.T) {
	for name, cause := range map[string]error{"out of time": context.DeadlineExceeded, "interrupted": interrupted{}} {
		t.Run(name, func(t *testing.T) {
			client, granted := deafGuest(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-granted
				for stuck := 0; stuck < 3; stuck++ { // the program's input fills the connection
					time.Sleep(50 * time.Millisecond)
				}
				cancel(cause)
				time.Sleep(2 * impatience)
				for range 3 { // as somebody does whom nothing seems to obey
					unix.Kill(os.Getpid(), unix.SIGINT)
					time.Sleep(2 * impatience)
				}
			}()
			exit, err := within(t, ctx, client, command, Stdio{In: zeros{}})
			if errors.Is(cause, context.DeadlineExceeded) != errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %+v, %v", exit, err)
			}
		})
	}
}

type interrupted struct{}

func (interrupted) Error() string     { return "interrupted" }
func (interrupted) Signal() os.Signal { return unix.SIGINT }
