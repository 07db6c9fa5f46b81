package relay

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
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
	exhausted := &Pipes{taken: maxTaken}
	for name, tt := range map[string]struct {
		networks [2]string
		pipes    *Pipes
		wrap     bool
	}{
		"TCP":           {[2]string{"tcp", "tcp"}, &Pipes{}, false},
		"unix to TCP":   {[2]string{"unix", "tcp"}, &Pipes{}, false},
		"without pipes": {[2]string{"tcp", "tcp"}, exhausted, false},
		"wrapped":       {[2]string{"tcp", "tcp"}, &Pipes{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			defer tt.pipes.Close()
			client, near := pair(t, tt.networks[0])
			far, server := pair(t, tt.networks[1])
			if tt.wrap {
				near = wrapped{near}
			}
			var counts Counts
			joined := make(chan error, 1)
			go func() { joined <- Join(near, far, tt.pipes, &counts) }()

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
			if tt.pipes != exhausted && tt.pipes.taken != 0 {
				t.Errorf("%d pipes are not given back", tt.pipes.taken)
			}
		})
	}
}

// A direction that has ended does not end the other.
func TestJoinKeepsHalfOpen(t *testing.T) {
	client, near := pair(t, "tcp")
	far, server := pair(t, "tcp")
	joined := make(chan error, 1)
	go func() { joined <- Join(near, far, &Pipes{}, &Counts{}) }()
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
		go func() { joined <- Join(near, far, &Pipes{}, &Counts{}) }()
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

// Idle connections hold no pipe.
func TestIdleHoldsNoPipe(t *testing.T) {
	pipes := &Pipes{}
	defer pipes.Close()
	var wg sync.WaitGroup
	before := openFiles(t)
	var ends []net.Conn
	for range 20 {
		client, near := pair(t, "tcp")
		far, server := pair(t, "tcp")
		wg.Go(func() { Join(near, far, pipes, &Counts{}) })
		client.Write([]byte("x"))
		if _, err := io.ReadFull(server, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, client, server)
	}
	for deadline := time.Now().Add(patience); takenOf(pipes) > 0; { // what was moved has arrived before its pipe is given back
		if time.Now().After(deadline) {
			t.Fatalf("%d pipes are in use", takenOf(pipes))
		}
		time.Sleep(time.Millisecond)
	}
	if got := openFiles(t) - before - 4*20; got > 2*maxIdle {
		t.Errorf("%d descriptors beside those of the connections", got)
	}
	for _, end := range ends {
		end.Close()
	}
	wg.Wait()
}

func takenOf(p *Pipes) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func BenchmarkJoin(b *testing.B) {
	for name, run := range map[string]func(near, far net.Conn){
		"direct":  nil,
		"join":    func(near, far net.Conn) { Join(near, far, &Pipes{}, &Counts{}) },
		"buffers": func(near, far net.Conn) { Join(near, far, &Pipes{taken: maxTaken}, &Counts{}) },
		"io.Copy": func(near, far net.Conn) { go io.Copy(far, near); io.Copy(near, far); near.Close() },
	} {
		b.Run(name, func(b *testing.B) {
			client, near := pair(b, "tcp")
			far, server := pair(b, "tcp")
			if run == nil {
				server = near
			} else {
				go run(near, far)
			}
			const size = 64 << 20
			go func() {
				buf := make([]byte, 256<<10)
				for {
					if _, err := server.Write(buf); err != nil {
						return
					}
				}
			}()
			b.SetBytes(size)
			buf := make([]byte, 256<<10)
			before := processorTime(b)
			defer func() {
				b.ReportMetric(float64(processorTime(b)-before)/float64(b.N)/(size>>20), "cpu-ns/MB")
			}()
			for b.Loop() {
				for left := size; left > 0; {
					n, err := client.Read(buf[:min(left, len(buf))])
					if err != nil {
						b.Fatal(err)
					}
					left -= n
				}
			}
		})
	}
}

// processorTime is what the process has used so far, the kernel's work for it
// included: unlike the time that passes, it does not depend on what else runs.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestCountsWhatIsTaken: a receiver that takes a little of what was read for it is not silent.
func TestCountsWhatIsTaken(t *testing.T) {
	client, near := pair(t, "unix")
	far, deaf := pair(t, "tcp")
	err := errors.Join(client.(*net.UnixConn).SetWriteBuffer(1<<20), far.(*net.TCPConn).SetWriteBuffer(4<<10), deaf.(*net.TCPConn).SetReadBuffer(4<<10))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write(make([]byte, 192<<10)); err != nil { // more than the other end takes at once
		t.Fatal(err)
	}
	var counts Counts
	ended := make(chan error, 1)
	go func() { ended <- Join(near, far, &Pipes{}, &counts) }()
	for deadline := time.Now().Add(patience); counts.Out.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what was taken is not counted")
		}
	}
	client.Close()
	near.Close()
	far.Close()
	<-ended
}
