package control

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/testdir"
)

// patience is how long anything may take that is waited for.
const patience = 2 * time.Minute

// channel is a connected pair, the host bounded as in production.
func channel(t *testing.T) (host, guest *Conn) {
	t.Helper()
	h, g, err := Pair()
	testdir.Must(t, err)
	host, err = New(h, FromGuest())
	testdir.Must(t, err)
	guest, err = New(g, FromHost())
	testdir.Must(t, err)
	t.Cleanup(func() { host.Close(); guest.Close() })
	deadline := time.Now().Add(patience)
	host.SetDeadline(deadline)
	guest.SetDeadline(deadline)
	return host, guest
}

func openFDs(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	testdir.Must(t, err)
	return len(entries)
}

// wantFDs waits until n descriptors are open: the kernel closes those in
// flight a moment after the call that dropped them.
func wantFDs(t *testing.T, n int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for openFDs(t) != n {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors are open, %d before", openFDs(t), n)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	big := bytes.Repeat([]byte("certificate "), 300_000)
	for _, tc := range []struct {
		name  string
		frame Frame
	}{
		{"kind alone", Frame{Kind: Go}},
		{"body", Frame{Kind: Stop, Body: []byte(`{"graceMillis":5}`)}},
		{"blob", Frame{Kind: Boot, Blob: big}},
		{"both", Frame{Kind: Boot, Body: []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`), Blob: big}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			host, guest := channel(t)
			sent := make(chan error, 1)
			go func() { sent <- host.Send(tc.frame) }()
			got, files, err := guest.Receive()
			testdir.Must(t, err)
			testdir.Must(t, <-sent)
			if got.Kind != tc.frame.Kind || !bytes.Equal(got.Body, tc.frame.Body) || !bytes.Equal(got.Blob, tc.frame.Blob) {
				t.Error("another frame arrived")
			}
			if len(files) != 0 {
				t.Errorf("%d descriptors out of nowhere", len(files))
			}
		})
	}
}

func TestEncodeDecode(t *testing.T) {
	want := Failure{Step: "mounting /workspace", Error: "no such file", Hint: "make it"}
	f, err := Encode(Failed, want)
	testdir.Must(t, err)
	var got Failure
	testdir.Must(t, f.Decode(&got))
	testdir.Same(t, "", want, got)
	if err := (Frame{Kind: Failed, Body: []byte(`{"step":1}`)}).Decode(&got); err == nil {
		t.Error("a body of the wrong shape was decoded")
	}
	if _, err := Encode(Failed, func() {}); err == nil {
		t.Error("a function was encoded")
	}
}

func TestFilesArriveInOrder(t *testing.T) {
	host, guest := channel(t)
	before := openFDs(t)
	var sent []*os.File
	for range FromGuest().Files {
		f, err := os.CreateTemp(t.TempDir(), "")
		testdir.Must(t, err)
		sent = append(sent, f)
	}
	// A second frame right behind must not take part in the first.
	for range 2 {
		testdir.Must(t, guest.Send(Frame{Kind: Listeners, Blob: make([]byte, 30_000)}, sent...))
	}
	for range 2 {
		_, files, err := host.Receive()
		testdir.Must(t, err)
		if len(files) != len(sent) {
			t.Fatalf("%d descriptors, want %d", len(files), len(sent))
		}
		for i, f := range files {
			want, _ := sent[i].Stat()
			got, err := f.Stat()
			if err != nil || !os.SameFile(want, got) {
				t.Errorf("descriptor %d is another file (%v)", i, err)
			}
			raw, _ := f.SyscallConn()
			raw.Control(func(fd uintptr) {
				if flags, _ := unix.FcntlInt(fd, unix.F_GETFD, 0); flags&unix.FD_CLOEXEC == 0 {
					t.Errorf("descriptor %d survives exec", i)
				}
			})
		}
		closeAll(files)
	}
	closeAll(sent)
	wantFDs(t, before)
}

// raw is the guest's end as an attacker has it.
func raw(t *testing.T) (*Conn, *net.UnixConn) {
	t.Helper()
	host, guest := channel(t)
	return host, guest.unix
}

func wire(f Frame) []byte {
	head, err := marshal(f)
	if err != nil {
		panic(err)
	}
	return append(head, f.Blob...)
}

func rights(t *testing.T, n int) []byte {
	t.Helper()
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	testdir.Must(t, err)
	t.Cleanup(func() { unix.Close(null) })
	fds := make([]int, n)
	for i := range fds {
		fds[i] = null
	}
	return unix.UnixRights(fds...)
}

func TestHostileGuest(t *testing.T) {
	ready := wire(Frame{Kind: Ready})
	for _, tc := range []struct {
		name     string
		attack   func(t *testing.T, c *net.UnixConn)
		protocol bool // ErrProtocol, otherwise the stream just ended within a frame
	}{
		{"a frame of 4 GiB", func(t *testing.T, c *net.UnixConn) {
			c.Write([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
		}, true},
		{"one byte over the bound", func(t *testing.T, c *net.UnixConn) {
			c.Write(wire(Frame{Kind: Ready, Blob: make([]byte, FromGuest().Bytes-headerSize-len(Ready)+1)}))
		}, true},
		{"an unknown kind", func(t *testing.T, c *net.UnixConn) {
			c.Write(append([]byte{0, 0, 0, 0, 0, 0, 0, 0, 4}, "root"...))
		}, true},
		{"no kind", func(t *testing.T, c *net.UnixConn) { c.Write(make([]byte, headerSize)) }, true},
		{"too many descriptors", func(t *testing.T, c *net.UnixConn) {
			c.WriteMsgUnix(wire(Frame{Kind: Listeners}), rights(t, FromGuest().Files+1), nil)
		}, true},
		{"very many descriptors", func(t *testing.T, c *net.UnixConn) {
			c.WriteMsgUnix(wire(Frame{Kind: Listeners}), rights(t, maxFiles), nil)
		}, true},
		{"a descriptor beside Ready", func(t *testing.T, c *net.UnixConn) {
			c.WriteMsgUnix(ready, rights(t, 1), nil)
		}, true},
		{"descriptors and then a bad header", func(t *testing.T, c *net.UnixConn) {
			c.WriteMsgUnix(bytes.Repeat([]byte{0xff}, headerSize), rights(t, 5), nil)
		}, true},
		{"descriptors and then nothing", func(t *testing.T, c *net.UnixConn) {
			c.WriteMsgUnix(ready[:3], rights(t, 5), nil)
			c.CloseWrite()
		}, false},
		{"half a frame", func(t *testing.T, c *net.UnixConn) {
			c.WriteMsgUnix(ready[:len(ready)-1], rights(t, 5), nil)
			c.CloseWrite()
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			host, guest := raw(t)
			rights(t, 1) // the descriptor of /dev/null is no leak
			before := openFDs(t)
			go tc.attack(t, guest)
			_, files, err := host.Receive()
			if err == nil || files != nil {
				t.Fatalf("accepted, with %d descriptors", len(files))
			}
			if errors.Is(err, ErrProtocol) != tc.protocol || errors.Is(err, io.EOF) {
				t.Errorf("the error is %v", err)
			}
			if _, _, again := host.Receive(); again == nil || !errors.Is(again, err) {
				t.Errorf("the channel was used again: %v", again)
			}
			if n := openFDs(t); n > before+1 { // the attacker's own may still be there
				t.Errorf("%d descriptors are open, %d before", n, before)
			}
		})
	}
}

// Descriptors beyond the header have no owner: they must neither be delivered nor stay open.
func TestStrayFilesAreClosed(t *testing.T) {
	host, guest := raw(t)
	r, w, err := os.Pipe()
	testdir.Must(t, err)
	defer r.Close()
	rawW, _ := w.SyscallConn()
	var oob []byte
	rawW.Control(func(fd uintptr) { oob = unix.UnixRights(int(fd)) })
	frame := wire(Frame{Kind: Ready, Blob: []byte("blob")})
	before := openFDs(t)
	guest.Write(frame[:headerSize])
	for _, b := range frame[headerSize:] {
		if _, _, err := guest.WriteMsgUnix([]byte{b}, oob, nil); err != nil {
			t.Fatal(err)
		}
	}
	f, files, err := host.Receive()
	if err != nil || f.Kind != Ready || len(files) != 0 {
		t.Fatalf("got %v with %d descriptors, %v", f.Kind, len(files), err)
	}
	wantFDs(t, before)
	// No copy of the write end is left anywhere: the reader sees the end.
	w.Close()
	r.SetReadDeadline(time.Now().Add(patience))
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("the pipe is still open: %v", err)
	}
}

func TestEndAndDeadlines(t *testing.T) {
	host, guest := channel(t)
	host.SetReadDeadline(time.Now().Add(-time.Second))
	if _, _, err := host.Receive(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	// Between frames a deadline does no harm.
	host.SetReadDeadline(time.Now().Add(patience))
	guest.Send(Frame{Kind: Ready})
	if f, _, err := host.Receive(); err != nil || f.Kind != Ready {
		t.Fatalf("got %v, %v", f.Kind, err)
	}
	guest.Close()
	if _, _, err := host.Receive(); err != io.EOF {
		t.Fatalf("got %v", err)
	}
	testdir.Fails(t, "", unix.EPIPE, host.Send(Frame{Kind: Go}))
}

// A guest that does not read can't hold a Send forever, nor make the next
// frame begin inside the last one.
func TestStuckReader(t *testing.T) {
	host, guest := raw(t)
	sent := make(chan error, 1)
	go func() { sent <- host.Send(Frame{Kind: Boot, Blob: make([]byte, 8<<20)}) }()
	if _, err := guest.Read(make([]byte, 1)); err != nil { // and that is all it reads
		t.Fatal(err)
	}
	host.SetWriteDeadline(time.Now())
	testdir.Fails(t, "", os.ErrDeadlineExceeded, <-sent)
	host.SetWriteDeadline(time.Time{})
	testdir.Fails(t, "half a frame was followed by another", os.ErrDeadlineExceeded, host.Send(Frame{Kind: Go}))
}

func TestCloseUnblocksReceive(t *testing.T) {
	host, _ := channel(t)
	done := make(chan error, 1)
	go func() { _, _, err := host.Receive(); done <- err }()
	host.Close()
	testdir.Fails(t, "", net.ErrClosed, <-done)
}

func TestSendRefuses(t *testing.T) {
	host, _ := channel(t)
	if err := host.Send(Frame{Kind: "root"}); err == nil {
		t.Error("an unknown kind was sent")
	}
	if err := host.Send(Frame{Kind: Go}, make([]*os.File, maxFiles+1)...); err == nil {
		t.Error("too many descriptors were sent")
	}
	closed, other, _ := os.Pipe()
	closed.Close()
	other.Close() // now, and not while another test counts descriptors
	if err := host.Send(Frame{Kind: Go}, closed); err == nil {
		t.Error("a closed file was sent")
	}
}

func TestNewRefusesOtherFiles(t *testing.T) {
	channel(t) // Go's poller has descriptors of its own from the first on
	before := openFDs(t)
	for _, open := range []func() (*os.File, error){
		func() (*os.File, error) { return os.Open("/dev/null") },
		func() (*os.File, error) {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			return os.NewFile(uintptr(fd), "tcp"), err
		},
	} {
		f, err := open()
		testdir.Must(t, err)
		if _, err := New(f, FromGuest()); err == nil {
			t.Error("taken over")
		}
	}
	wantFDs(t, before)
}

func FuzzReceive(f *testing.F) {
	f.Add(wire(Frame{Kind: Ready}))
	f.Add(wire(Frame{Kind: Failed, Body: []byte(`{"step":"x"}`), Blob: []byte("b")}))
	f.Add(append(wire(Frame{Kind: Answer}), wire(Frame{Kind: Answer})...))
	f.Add(bytes.Repeat([]byte{0xff}, 20))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < headerSize {
			return
		}
		h, err := parseHeader([headerSize]byte(data[:headerSize]), FromGuest())
		if err != nil {
			return
		}
		if h.size() > FromGuest().Bytes {
			t.Fatalf("%d bytes would be read", h.size())
		}
		frame, err := parse(h, data[headerSize:])
		if err != nil {
			return
		}
		testdir.Same(t, "", data, wire(frame))
		var failure Failure
		frame.Decode(&failure)
	})
}

// TestPeerDied: what the dead have sent arrives, and then the end, also while a descriptor of
// theirs is open.
func TestPeerDied(t *testing.T) {
	host, guest := channel(t)
	for range 2 {
		testdir.Must(t, guest.Send(Frame{Kind: Ready}))
	}
	host.PeerDied()
	for range 2 {
		if f, _, err := host.Receive(); err != nil || f.Kind != Ready {
			t.Errorf("got %v, %v", f.Kind, err)
		}
	}
	if _, _, err := host.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last: %v", err)
	}
	testdir.Fails(t, "sending", unix.EPIPE, host.Send(Frame{Kind: Go}))
	waiting, _ := channel(t)
	received := make(chan error, 1)
	go func() {
		_, _, err := waiting.Receive()
		received <- err
	}()
	waiting.PeerDied()
	testdir.Fails(t, "who waits", io.EOF, <-received)
}
