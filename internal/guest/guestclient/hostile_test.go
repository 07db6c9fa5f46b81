package guestclient

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"forage/internal/guest/wire"
	"forage/internal/testdir"
)

// patience is how long anything may take that must happen.
const patience = 5 * time.Minute

// socketPair is a connection and its other end.
func socketPair(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	listener, err := net.Listen("unix", testdir.Plain(t)+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	near, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

// hostileGuest does what serve says with each channel.
func hostileGuest(t *testing.T, serve func(*wire.Conn, ssh.NewChannel)) *Client {
	t.Helper()
	return hostileGuestOver(t, func(conn net.Conn) net.Conn { return conn }, serve)
}

// hostileGuestOver is hostileGuest that reads and writes its end of the connection in its own way.
func hostileGuestOver(t *testing.T, over func(net.Conn) net.Conn, serve func(*wire.Conn, ssh.NewChannel)) *Client {
	t.Helper()
	near, end := socketPair(t)
	far := over(end)
	go func() {
		if _, err := io.ReadFull(far, make([]byte, 1)); err != nil {
			return
		}
		conn := wire.NewConn(far, true)
		for channel := range conn.Opened() {
			go serve(conn, channel)
		}
	}()
	client, err := New(near)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// within runs a command that must end in time.
func within(t *testing.T, ctx context.Context, client *Client, command Command, stdio Stdio) (Exit, error) {
	t.Helper()
	type result struct {
		exit Exit
		err  error
	}
	done := make(chan result, 1)
	go func() {
		exit, err := client.Run(ctx, command, stdio)
		done <- result{exit, err}
	}()
	select {
	case r := <-done:
		return r.exit, r.err
	case <-time.After(patience):
		buf := make([]byte, 1<<16)
		t.Fatalf("Run does not return:\n%s", buf[:runtime.Stack(buf, true)])
		return Exit{}, nil
	}
}

var command = Command{Argv: []string{"true"}}

// accept takes a session and grants all requests; it returns after the first.
func accept(channel ssh.NewChannel) ssh.Channel {
	accepted, requests, err := channel.Accept()
	if err != nil {
		return nil
	}
	granted := make(chan struct{})
	go func() {
		var first sync.Once
		for range requests {
			reply(accepted)
			first.Do(func() { close(granted) })
		}
	}()
	<-granted
	return accepted
}

func reply(channel ssh.Channel) { channel.(interface{ Reply(bool) error }).Reply(true) }

func status(code uint32) []byte { return binary.BigEndian.AppendUint32(nil, code) }

func TestNotAGuest(t *testing.T) {
	open, head := []byte{1, 0, 0, 0, 1, 0, 0, 0, 0}, []byte{3, 0, 0, 0, 1}
	for name, says := range map[string]func(net.Conn){
		"silence":                 func(net.Conn) {},
		"end":                     func(c net.Conn) { c.Close() },
		"garbage":                 func(c net.Conn) { c.Write(bytes.Repeat([]byte{0xff}, 1<<20)) },
		"endless lines":           func(c net.Conn) { io.Copy(c, endlessLines{}) },
		"half a frame":            func(c net.Conn) { c.Write(head) },
		"huge frame":              func(c net.Conn) { c.Write(append(head, 0xff, 0xff, 0xff, 0xff)) },
		"opened twice":            func(c net.Conn) { c.Write(append(open, open...)) },
		"a channel of the guest":  func(c net.Conn) { c.Write([]byte{0, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 0}) },
		"a channel without being": func(c net.Conn) { c.Write([]byte{3, 0, 0, 0, 9, 0, 0, 0, 0}) },
		"more room than there is": func(c net.Conn) { c.Write(append(open, 6, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1)) },
		"a reply to nothing":      func(c net.Conn) { c.Write(append(open, bytes.Repeat([]byte{8, 0, 0, 0, 1, 0, 0, 0, 0}, 3)...)) },
		"a request before it":     func(c net.Conn) { c.Write([]byte{7, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0, 0}) },
		"more than was asked for": func(c net.Conn) {
			c.Write(open)
			for {
				if _, err := c.Write(append([]byte{4, 0, 0, 0, 1, 0, 1, 0, 0}, make([]byte, 64<<10)...)); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := socketPair(t)
			client, err := New(near)
			if err != nil {
				t.Fatal(err)
			}
			go says(far)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if exit, err := within(t, ctx, client, command, Stdio{}); err == nil {
				t.Errorf("got %+v", exit)
			}
		})
	}
}

type endlessLines struct{}

func (endlessLines) Read(p []byte) (int, error) {
	return copy(p, strings.Repeat("hello\r\n", 1+len(p)/7)), nil
}

// What a hostile guest says about a program's end.
func TestLiesAboutTheEnd(t *testing.T) {
	for _, test := range []struct {
		name string
		lie  func(ssh.Channel)
		code int // -1: ErrLost
	}{
		{"nothing", func(ssh.Channel) {}, -1},
		{"a status beyond 255", func(c ssh.Channel) { c.SendRequest("exit-status", false, status(256)) }, 255},
		{"a negative status", func(c ssh.Channel) { c.SendRequest("exit-status", false, status(1<<32-1)) }, 255},
		{"a short status", func(c ssh.Channel) { c.SendRequest("exit-status", false, []byte{0}) }, -1},
		{"no such signal", func(c ssh.Channel) {
			c.SendRequest("exit-signal", false, ssh.Marshal(struct {
				Name          string
				Core          bool
				Message, Lang string
			}{Name: "NONSENSE"}))
		}, 255},
		{"half a signal", func(c ssh.Channel) { c.SendRequest("exit-signal", false, []byte{0, 0}) }, -1},
		{"two ends", func(c ssh.Channel) {
			c.SendRequest("exit-status", false, status(3))
			c.SendRequest("exit-status", false, status(0))
		}, 3},
		{"other requests", func(c ssh.Channel) {
			for range 1000 {
				c.SendRequest("nonsense", false, make([]byte, 1000))
			}
			c.SendRequest("exit-status", false, status(4))
		}, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client := hostileGuest(t, func(_ *wire.Conn, channel ssh.NewChannel) {
				accepted := accept(channel)
				test.lie(accepted)
				accepted.Close()
			})
			exit, err := within(t, t.Context(), client, command, Stdio{})
			if test.code < 0 {
				if !errors.Is(err, ErrLost) {
					t.Errorf("got %+v, %v", exit, err)
				}
			} else if err != nil || exit.Code() != test.code {
				t.Errorf("got %+v, %v", exit, err)
			}
		})
	}
}

// A guest that never answers is given up when the context ends.
func TestGuestThatHangs(t *testing.T) {
	for name, serve := range map[string]func(*wire.Conn, ssh.NewChannel){
		"never opens":   func(*wire.Conn, ssh.NewChannel) {},
		"never replies": func(_ *wire.Conn, c ssh.NewChannel) { c.Accept() },
		"floods before it replies": func(_ *wire.Conn, c ssh.NewChannel) {
			accepted, _, _ := c.Accept()
			for accepted != nil {
				if _, err := accepted.SendRequest("nonsense", false, nil); err != nil {
					return
				}
			}
		},
		"never ends":  func(_ *wire.Conn, c ssh.NewChannel) { accept(c) },
		"never stops": func(_ *wire.Conn, c ssh.NewChannel) { io.Copy(accept(c), endlessLines{}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := hostileGuest(t, serve)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if _, err := within(t, ctx, client, command, Stdio{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// What reaches a terminal is filtered, whichever stream it comes by, with a terminal inside and
// without one.
func TestTerminalIsFiltered(t *testing.T) {
	const attack = "X\x1b]52;c;bXk=\aY"
	for _, tty := range []bool{false, true} {
		master, slave := openTerminal(t)
		client := hostileGuest(t, func(_ *wire.Conn, channel ssh.NewChannel) {
			accepted := accept(channel)
			io.WriteString(accepted, attack)
			io.WriteString(accepted.Stderr(), attack)
			accepted.Close()
		})
		command := command
		command.TTY = tty
		within(t, t.Context(), client, command, Stdio{Out: slave, Err: slave})
		io.WriteString(slave, ".")
		got, err := bufio.NewReader(master).ReadString('.')
		if strings.Count(got, "X") != 2 || strings.Count(got, "Y") != 2 || strings.Contains(got, "52") {
			t.Errorf("terminal inside %v: the user's gets %q, %v", tty, got, err)
		}
	}
}

// openTerminal is a pseudoterminal's two ends.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// What comes before the reply doesn't keep the reply from being seen.
func TestRequestsBeforeTheReply(t *testing.T) {
	client := hostileGuest(t, func(_ *wire.Conn, channel ssh.NewChannel) {
		accepted, requests, _ := channel.Accept()
		for range 1000 {
			accepted.SendRequest("nonsense", false, nil)
		}
		<-requests
		reply(accepted)
		accepted.SendRequest("exit-status", false, status(6))
		accepted.Close()
	})
	if exit, err := within(t, t.Context(), client, command, Stdio{}); err != nil || exit.Code() != 6 {
		t.Errorf("got %+v, %v", exit, err)
	}
}
