package guestclient

import (
	"bytes"
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
func deafGuest(t *testing.T) (*Client, <-chan *deaf) {
	t.Helper()
	var far *deaf
	granted := make(chan *deaf, 1)
	client := hostileGuestOver(t, func(conn net.Conn) net.Conn {
		far = &deaf{Conn: conn, closed: make(chan struct{})}
		t.Cleanup(func() { close(far.closed) })
		return far
	}, func(_ *ssh.ServerConn, channel ssh.NewChannel) {
		accept(channel)
		far.told.Store(true)
		granted <- far
	})
	return client, granted
}

// filling is how long a program's input has to fill a connection of which nothing is taken. If it takes longer, these tests
// find nothing.
const filling = 200 * time.Millisecond

// zeros is input without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A guest that takes nothing any more can be given up, also while what it would have to be told is stuck behind input.
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

// The same one can speak nonsense meanwhile, which ends the connection as far as it is listened to.
func TestDeafGuestSpeaksNonsense(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	go func() {
		defer write.Close()
		io.Copy(write, zeros{})
	}()
	for name, input := range map[string]io.Reader{"a file": read, "no file": zeros{}} {
		t.Run(name, func(t *testing.T) {
			client, granted := deafGuest(t)
			go func() {
				far := <-granted
				time.Sleep(filling)
				far.Conn.Write(bytes.Repeat([]byte{0xff}, 1<<10))
			}()
			if exit, err := within(t, t.Context(), client, command, Stdio{In: input}); !errors.Is(err, ErrLost) {
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

// Another program may take the input that this one was told of. What comes next is not waited for when the program has ended.
func TestInputThatAnotherTook(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	in, typed := os.NewFile(uintptr(fds[0]), "in"), os.NewFile(uintptr(fds[1]), "typed")
	defer typed.Close() // in is in a read that is left behind
	// Poll tells of one byte, a read waits for two.
	if err := unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_RCVLOWAT, 2); err != nil {
		t.Fatal(err)
	}
	typed.WriteString("x")
	client := hostileGuest(t, func(_ *ssh.ServerConn, channel ssh.NewChannel) {
		accepted := accept(channel)
		for { // until it has been read
			n, err := unix.IoctlGetInt(fds[0], unix.TIOCINQ)
			if err != nil || n == 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		accepted.SendRequest("exit-status", false, status(0))
		accepted.Close()
	})
	if exit, err := within(t, t.Context(), client, command, Stdio{In: in}); err != nil {
		t.Errorf("got %+v, %v", exit, err)
	}
}

type interrupted struct{}

func (interrupted) Error() string     { return "interrupted" }
func (interrupted) Signal() os.Signal { return unix.SIGINT }
