package mux

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"testing"

	"forage/internal/testdir"
)

func pair(t *testing.T) (host, guest *Session) {
	t.Helper()
	a, b := net.Pipe()
	host, err := New(a, true)
	if err == nil {
		guest, err = New(b, false)
	}
	testdir.Must(t, err)
	t.Cleanup(func() { host.Close(); guest.Close() })
	return host, guest
}

func connect(t *testing.T, from, to *Session) (a, b net.Conn) {
	t.Helper()
	a, err := from.Open(context.Background())
	if err == nil {
		b, err = to.Accept()
	}
	testdir.Must(t, err)
	return a, b
}

func TestHalves(t *testing.T) {
	host, guest := pair(t)
	a, b := connect(t, guest, host)
	sent := make([]byte, 3<<20)
	rand.Read(sent)
	go func() {
		a.Write(sent)
		a.(*Stream).CloseWrite()
	}()
	if got, err := io.ReadAll(b); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d arrived, %v", len(got), len(sent), err)
	}
	go func() {
		b.Write([]byte("answer"))
		b.Close()
	}()
	if got, err := io.ReadAll(a); err != nil || string(got) != "answer" {
		t.Errorf("the other half: %q, %v", got, err)
	}
}

func TestReset(t *testing.T) {
	host, guest := pair(t)
	a, b := connect(t, host, guest)
	b.(*Stream).SetLinger(0)
	b.Close()
	if _, err := a.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a reset reads as %v", err)
	}
}

// TestBounded: streams beyond the bound are reset, and the others go on.
func TestBounded(t *testing.T) {
	host, guest := pair(t)
	first, accepted := connect(t, guest, host)
	var last net.Conn
	for range maxStreams {
		var err error
		if last, err = guest.Open(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := last.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("one more than %d: %v", maxStreams, err)
	}
	go accepted.Write([]byte("x"))
	if _, err := io.ReadFull(first, make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

func TestEnd(t *testing.T) {
	host, guest := pair(t)
	guest.Close()
	if _, err := host.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}
