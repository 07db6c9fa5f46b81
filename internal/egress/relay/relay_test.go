package relay

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"forage/internal/testdir"
)

// patience is how long anything may take that is waited for.
const patience = 2 * time.Minute

// pair returns the two ends of a connection.
func pair(t testing.TB, network string) (a, b net.Conn) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(testdir.Plain(t), "s")
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if a, err = net.Dial(network, listener.Addr().String()); err == nil {
		b, err = listener.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	for _, conn := range []net.Conn{a, b} {
		conn.SetDeadline(time.Now().Add(patience))
	}
	return a, b
}

// wrapped hides what a connection is.
type wrapped struct{ net.Conn }

func (w wrapped) CloseWrite() error { return w.Conn.(interface{ CloseWrite() error }).CloseWrite() }

func TestJoinMovesEverything(t *testing.T) {
	for name, tt := range map[string]struct {
		networks [2]string
		wrap     bool
	}{
		"TCP":         {[2]string{"tcp", "tcp"}, false},
		"unix to TCP": {[2]string{"unix", "tcp"}, false},
		"wrapped":     {[2]string{"tcp", "tcp"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			client, near := pair(t, tt.networks[0])
			far, server := pair(t, tt.networks[1])
			if tt.wrap {
				near = wrapped{near}
			}
			var counts Counts
			joined := make(chan error, 1)
			go func() { joined <- Join(near, far, &counts) }()

			up, down := make([]byte, 5<<20+3), make([]byte, 7<<20+1)
			rand.Read(up)
			rand.Read(down)
			var wg sync.WaitGroup
			exchange := func(conn net.Conn, send, want []byte) {
				wg.Go(func() {
					conn.Write(send)
					closeWrite(conn)
				})
				wg.Go(func() {
					got, err := io.ReadAll(conn)
					if err != nil || !bytes.Equal(got, want) {
						t.Errorf("%d of %d bytes arrived, %v", len(got), len(want), err)
					}
				})
			}
			exchange(client, up, down)
			exchange(server, down, up)
			wg.Wait()
			if err := <-joined; err != nil {
				t.Error(err)
			}
			if counts.Out.Load() != int64(len(up)) || counts.In.Load() != int64(len(down)) {
				t.Errorf("counted %d out, %d in", counts.Out.Load(), counts.In.Load())
			}
		})
	}
}

// A direction that has ended does not end the other.
func TestJoinKeepsHalfOpen(t *testing.T) {
	client, near := pair(t, "tcp")
	far, server := pair(t, "tcp")
	joined := make(chan error, 1)
	go func() { joined <- Join(near, far, &Counts{}) }()
	client.Write([]byte("question"))
	closeWrite(client)
	if got, err := io.ReadAll(server); string(got) != "question" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	server.Write([]byte("answer"))
	server.Close()
	if got, err := io.ReadAll(client); string(got) != "answer" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	if err := <-joined; err != nil {
		t.Error(err)
	}
}

func TestJoinPassesOnResets(t *testing.T) {
	for _, wrap := range []bool{false, true} {
		client, near := pair(t, "tcp")
		far, server := pair(t, "tcp")
		if wrap {
			near = wrapped{near}
		}
		joined := make(chan error, 1)
		go func() { joined <- Join(near, far, &Counts{}) }()
		client.Write([]byte("x"))
		io.ReadFull(server, make([]byte, 1))
		Reset(server)
		if _, err := client.Read(make([]byte, 1)); !wrap && !errors.Is(err, syscall.ECONNRESET) || err == nil {
			t.Errorf("the client sees %v", err)
		}
		if err := <-joined; err == nil {
			t.Error("no error is told")
		}
	}
}
