package guestclient

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"forage/internal/guest/wire"
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

// deafGuest grants a program and takes nothing from then on; the channel gets a value when that is
// so.
func deafGuest(t *testing.T) (*Client, <-chan *deaf) {
	t.Helper()
	var far *deaf
	granted := make(chan *deaf, 1)
	client := hostileGuestOver(t, func(conn net.Conn) net.Conn {
		far = &deaf{Conn: conn, closed: make(chan struct{})}
		t.Cleanup(func() { close(far.closed) })
		return far
	}, func(_ *wire.Conn, channel ssh.NewChannel) {
		accept(channel)
		far.told.Store(true)
		granted <- far
	})
	return client, granted
}

// filling is how long a program's input has to fill a connection of which nothing is taken. If it
// takes longer, these tests find nothing.
const filling = 200 * time.Millisecond

// zeros is input without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A guest that takes nothing any more can be given up, also while what it would have to be told is
// stuck behind input.
func TestDeafGuest(t *testing.T) {
	late := make(chan os.Signal, 1)
	signal.Notify(late, unix.SIGINT) // one that comes when Run has returned must not end the tests
	defer signal.Stop(late)
	for name, cause := range map[string]error{"out of time": context.DeadlineExceeded, "interrupted": interrupted{}} {
		t.Run(name, func(t *testing.T) {
			client, granted := deafGuest(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-granted
				time.Sleep(filling)
				cancel(cause)
				time.Sleep(2 * impatience)
				for range 3 { // as an impatient user does
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

// A guest that is dead need not have closed its end, nor have taken what it was sent.
func TestDeadGuest(t *testing.T) {
	for name, input := range map[string]io.Reader{"no input": nil, "stuck input": zeros{}} {
		t.Run(name, func(t *testing.T) {
			client, granted := deafGuest(t)
			go func() {
				<-granted
				time.Sleep(filling)
				client.GuestDied()
			}()
			if exit, err := within(t, t.Context(), client, command, Stdio{In: input}); !errors.Is(err, ErrLost) {
				t.Errorf("got %+v, %v", exit, err)
			}
		})
	}
}

type interrupted struct{}

func (interrupted) Error() string     { return "interrupted" }
func (interrupted) Signal() os.Signal { return unix.SIGINT }
