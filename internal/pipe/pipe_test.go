package pipe

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"forage/internal/testdir"
)

// patience is how long anything may take that must happen.
const patience = 5 * time.Minute

// copying is Copy of what is said into a pipe that stays open at its other end until it is told to
// close.
func copying(t *testing.T, said string, ended <-chan struct{}, close bool) (string, error) {
	t.Helper()
	read, write, err := os.Pipe()
	testdir.Must(t, err)
	defer read.Close()
	defer write.Close()
	if _, err := write.WriteString(said); err != nil {
		t.Fatal(err)
	}
	if close {
		write.Close()
	}
	var got bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- Copy(&got, read, ended) }()
	select {
	case err := <-done:
		return got.String(), err
	case <-time.After(patience):
		t.Fatal("it waits in vain")
		return "", nil
	}
}

func TestCopyToTheEnd(t *testing.T) {
	if got, err := copying(t, "last words", nil, true); got != "last words" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestCopyOfTheDead: another process has the other end open still when all who wrote are dead; what
// they wrote is copied.
func TestCopyOfTheDead(t *testing.T) {
	ended := make(chan struct{})
	close(ended)
	for range 100 {
		if got, err := copying(t, "last words", ended, false); got != "last words" || err != nil {
			t.Fatalf("got %q, %v", got, err)
		}
	}
}

// TestCopyWaitsUntilTheyEnd: what is written while it copies is not missed, and the end of those
// who write is seen while it waits.
func TestCopyWaitsUntilTheyEnd(t *testing.T) {
	read, write, err := os.Pipe()
	testdir.Must(t, err)
	defer read.Close()
	defer write.Close()
	ended, done := make(chan struct{}), make(chan error, 1)
	got := make(chan string, 10)
	go func() { done <- Copy(writer(func(p []byte) { got <- string(p) }), read, ended) }()
	write.WriteString("while it waits")
	if said := <-got; said != "while it waits" {
		t.Errorf("got %q", said)
	}
	close(ended)
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it waits in vain")
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

func TestCopyFailsWithWhoTakesIt(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	testdir.Must(t, err)
	defer full.Close()
	read, write, err := os.Pipe()
	testdir.Must(t, err)
	defer read.Close()
	defer write.Close()
	write.WriteString("x")
	if err := Copy(full, read, nil); err == nil || errors.Is(err, os.ErrClosed) {
		t.Errorf("the error is %v", err)
	}
}
