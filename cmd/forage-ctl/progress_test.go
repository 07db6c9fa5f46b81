package main

import (
	"bytes"
	"io"
	"regexp"
	"sync"
	"testing"

	"github.com/creack/pty"

	"forage/internal/testdir"
)

// What takes long is said on a terminal. Nothing of that stays, and notes have lines of their own.
// What is over at once, and what is no terminal, shows nothing.
func TestProgress(t *testing.T) {
	master, slave, err := pty.Open()
	testdir.Must(t, err)
	defer master.Close()
	var mu sync.Mutex
	var shown bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(writerFunc(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return shown.Write(p)
		}), master)
	}()
	text := func() string {
		mu.Lock()
		defer mu.Unlock()
		return shown.String()
	}
	a := &app{err: slave}
	a.progress("quick").end()
	p := a.progress("copying \x1b[2J")
	p.say("3 MB")
	if !waitFor(func() bool { return regexp.MustCompile(`copying \\x1b\[2J: [1-9]s, 3 MB`).MatchString(text()) }) {
		t.Fatalf("got %q", text())
	}
	a.note("something")
	p.end()
	p.end()
	slave.Close()
	<-done
	if !regexp.MustCompile(`3 MB\r\x1b\[Knote: something\r\n`).MatchString(text()) || regexp.MustCompile(`quick|\x1b\[2J`).MatchString(text()) {
		t.Errorf("got %q", text())
	}
	none := &bytes.Buffer{}
	a = &app{err: none}
	if p := a.progress("x"); p.timer != nil {
		t.Error("there is a timer without a terminal")
	}
	a.told("x")()
	if none.Len() > 0 {
		t.Errorf("got %q", none)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
