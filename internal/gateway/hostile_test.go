package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"forage"
	"forage/internal/audit"
	"forage/internal/guest/guestclient"
	"forage/internal/guest/wire"
	"forage/internal/sshkeys"
	"forage/internal/term"
)

// sandboxes has one, with a hostile guest that does what serve says with each channel.
type sandboxes struct {
	serve   func(ssh.NewChannel)
	connect func() // what a connection waits for; may be nil
	records *atomic.Int64
	err     error // of a record
}

func (sandboxes) Names() ([]string, error) { return []string{"work"}, nil }
func (s sandboxes) Record(context.Context, string, audit.Event) error {
	if s.records != nil {
		s.records.Add(1)
	}
	return s.err
}
func (sandboxes) Screen(string) func(io.Writer) *term.Controls {
	return func(out io.Writer) *term.Controls { return &term.Controls{Out: out} }
}
func (sandboxes) Forwards(string, string) bool                   { return true }
func (sandboxes) AttachCommand(bool) []string                    { return []string{"tmux"} }
func (sandboxes) Dial(context.Context, string) (net.Conn, error) { return nil, net.ErrClosed }
func (s sandboxes) Connect(context.Context, string) (*guestclient.Client, error) {
	if s.connect != nil {
		s.connect()
	}
	near, far := net.Pipe()
	go func() {
		io.ReadFull(far, make([]byte, 1))
		for channel := range wire.NewConn(far, true).Opened() {
			go s.serve(channel)
		}
	}()
	return guestclient.New(near)
}

// logIn is a client of a gateway to a hostile guest.
func logIn(t *testing.T, connect func(), serve func(ssh.NewChannel)) *ssh.Client {
	t.Helper()
	host, key := newSigner(t), newSigner(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := New(Options{
		HostKey: host, Log: slog.New(slog.DiscardHandler), Sandboxes: sandboxes{serve: serve, connect: connect},
		Keys: func() ([]string, error) { return []string{sshkeys.Line(key.PublicKey())}, nil },
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(t.Context(), listener)
	}()
	client, err := ssh.Dial("tcp", listener.Addr().String(), &ssh.ClientConfig{
		User: "work", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.FixedHostKey(host.PublicKey()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); listener.Close(); <-done })
	return client
}

// granted takes a session and grants its program.
func granted(opened ssh.NewChannel) ssh.Channel {
	channel, requests, _ := opened.Accept()
	for request := range requests {
		channel.(interface{ Reply(bool) error }).Reply(true)
		if request.Type == "exec" || request.Type == wire.ExecRequest {
			break
		}
	}
	go func() {
		for range requests {
		}
	}()
	return channel
}

// A guest writes what it likes to both streams, and says nonsense about the end: a terminal gets no
// clipboard, and the client's connection goes on.
func TestHostileGuest(t *testing.T) {
	client := logIn(t, nil, func(opened ssh.NewChannel) {
		channel := granted(opened)
		io.WriteString(channel, "out\x1b]52;c;bXk=\a")
		io.WriteString(channel.Stderr(), "err\x1b]52;c;bXk=\a")
		channel.SendRequest("exit-status", false, []byte{0, 0, 0, 3})
		channel.SendRequest("exit-status", false, nil)
		channel.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Name          string
			Core          bool
			Message, Lang string
		}{Name: "TERM", Message: strings.Repeat("x", 250<<10)}))
		channel.Close()
	})
	for range 2 {
		session, err := client.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		if err := session.RequestPty("xterm", 24, 80, nil); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		session.Stdout, session.Stderr = &out, &errs
		err = session.Run("true")
		if exit, ok := err.(*ssh.ExitError); !ok || exit.ExitStatus() != 3 || out.String() != "out" || errs.String() != "err" {
			t.Errorf("got %v, %q, %q", err, out.String(), errs.String())
		}
	}
}

// Two channels of a client that reach a sandbox at the same moment share one connection.
func TestChannelsAtOnce(t *testing.T) {
	var connecting, running sync.WaitGroup
	connecting.Add(2)
	running.Add(2)
	client := logIn(t, func() {
		connecting.Done()
		connecting.Wait()
	}, func(opened ssh.NewChannel) {
		channel := granted(opened)
		running.Done()
		running.Wait()
		channel.SendRequest("exit-status", false, make([]byte, 4))
		channel.Close()
	})
	var ran sync.WaitGroup
	for range 2 {
		ran.Go(func() {
			session, err := client.NewSession()
			if err == nil {
				err = session.Run("true")
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	ran.Wait()
}

// The holders of a limited key do not fill a record, neither with what they may nor with what they
// may not, and not over several connections.
func TestLimitedKeyAsksSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var records atomic.Int64
		server := New(Options{Sandboxes: sandboxes{records: &records}})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		key := sshkeys.Authorized{Public: newSigner(t).PublicKey(), ReadOnly: true, Sandboxes: []string{"work"}}
		for _, name := range []string{"work", "other"} {
			c := &client{server: server, key: key}
			go func() {
				for range 1000 {
					if err := c.allow(ctx, name, "attach", "", true); err != nil && !errors.Is(err, forage.ErrDenied) {
						return
					}
				}
			}()
		}
		<-ctx.Done()
		synctest.Wait()
		if n := records.Load(); n > asksBurst+11*asksPerSecond {
			t.Errorf("%d records in ten seconds", n)
		}
	})
}

// What a limited key is not for is not named to its holder.
func TestLimitedKeyHearsOfNoOthers(t *testing.T) {
	err := forage.WithHint(forage.Errorf(forage.ErrNotFound, "no sandbox is called work"), "did you mean walk?")
	server := New(Options{Sandboxes: sandboxes{err: err}})
	key := sshkeys.Authorized{Public: newSigner(t).PublicKey(), Sandboxes: []string{"work"}}
	err = (&client{server: server, key: key}).allow(t.Context(), "work", "exec", "", false)
	if !errors.Is(err, forage.ErrNotFound) || strings.Contains(forage.Hint(err), "walk") {
		t.Errorf("got %v, %q", err, forage.Hint(err))
	}
}

// A guest that listens for a client opens as many connections as it likes: the client gets so many.
func TestHostileListener(t *testing.T) {
	ended := make(chan struct{})
	client := logIn(t, nil, func(opened ssh.NewChannel) {
		defer close(ended)
		channel, requests, _ := opened.Accept()
		go ssh.DiscardRequests(requests)
		channel.SendRequest(wire.ListeningRequest, false, []byte("127.0.0.1:7777"))
		conn := wire.NewConn(channel, false)
		defer conn.Close()
		refused := 0
		for range maxForwarded + 10 {
			_, requests, err := conn.OpenChannel("connection", nil)
			if err != nil {
				refused++
				continue
			}
			go ssh.DiscardRequests(requests)
		}
		if refused != 10 {
			t.Errorf("%d connections were refused", refused)
		}
	})
	listener, err := client.Listen("tcp", "127.0.0.1:7777")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			if _, err := listener.Accept(); err != nil {
				return
			}
		}
	}()
	<-ended
}
