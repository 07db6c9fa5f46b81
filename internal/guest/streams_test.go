package guest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"

	"forage/internal/guest/guestclient"
)

// random is n bytes that no layer can guess.
func random(n int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{1}), n)
}

func digest(r io.Reader) string {
	h := sha256.New()
	io.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil))
}

const large = 100 << 20

func TestClosedReaderEndsWriter(t *testing.T) {
	sb := up(t, setup{})
	read, write, err := os.Pipe()
	must(t, err)
	go func() {
		io.ReadFull(read, make([]byte, 1000))
		read.Close()
	}()
	exit, err := sb.dial().Run(t.Context(), guestclient.Command{Argv: []string{"yes"}}, guestclient.Stdio{Out: write})
	must(t, err)
	if exit.Signal != syscall.SIGPIPE {
		t.Errorf("yes ended with %+v, not of SIGPIPE", exit)
	}
}

func TestStandardStreams(t *testing.T) {
	sb := up(t, setup{})
	for _, test := range []struct {
		name           string
		script         string
		in             io.Reader
		stdout, stderr string
		code           int
	}{
		{"stdout and stderr apart", "echo a; echo b >&2", nil, "a\n", "b\n", 0},
		{"no input", "cat; echo end", nil, "end\n", "", 0},
		{"input", "cat; echo end", strings.NewReader("x\n"), "x\nend\n", "", 0},
		{"program that closes its input", "exec <&-; sleep 0.1; echo done", endless{}, "done\n", "", 0},
		{"program that ends without reading", "exit 3", endless{}, "", "", 3},
		{"closed outputs", "exec >&- 2>&-; sleep 0.05; exit 4", nil, "", "", 4},
		{"no terminal", "test -t 0 || test -t 1 || test -t 2 || echo none", nil, "none\n", "", 0},
		{"no other descriptors", "ls /proc/self/fd | tr '\\n' ' '", nil, "0 1 2 3 ", "", 0}, // 3 is ls's own
		{"signals at their defaults", "grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d '\\t\\n'; true", nil, "SigBlk:0000000000000000SigIgn:0000000000000000", "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			exit, err := sb.dial().Run(t.Context(), guestclient.Command{Argv: []string{"sh", "-c", test.script}},
				guestclient.Stdio{In: test.in, Out: &out, Err: &errOut})
			must(t, err)
			if out.String() != test.stdout || errOut.String() != test.stderr || exit.Code() != test.code {
				t.Errorf("got %q, %q and code %d", out.String(), errOut.String(), exit.Code())
			}
		})
	}
}

// endless is input without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// A process left in the background with the program's output does not keep the
// program's end from being known.
func TestBackgroundProcessDoesNotHoldTheExit(t *testing.T) {
	sb := up(t, setup{})
	for _, script := range []string{
		"sleep 1000 & echo started; exit 5",
		"yes & echo started; exit 5",
		"setsid sh -c 'while :; do echo x; sleep 0.01; done' & echo started; exit 5",
	} {
		stdout, _, code := sb.run("sh", "-c", script) // which is given up long before what is left ends
		if code != 5 || !strings.Contains(stdout, "started\n") {
			t.Errorf("%s: code %d", script, code)
		}
	}
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	exit, err := sb.dial().Run(ctx, guestclient.Command{Argv: []string{"sh", "-c", "setsid sleep 1000 & nohup sleep 1000 & echo started; exit 5"}, TTY: true},
		guestclient.Stdio{In: blocked{t}, Out: &out})
	must(t, err)
	if exit.Code() != 5 || !strings.Contains(out.String(), "started") {
		t.Errorf("on a terminal: code %d, %q", exit.Code(), out.String())
	}
	// What comes soon after is not lost. On a busy machine what is left behind may not get to write
	// within that time, so that it is tried again; where nothing was waited for it would be too
	// late each time.
	var stdout string
	for range 20 {
		if stdout, _, _ = sb.run("sh", "-c", "(while kill -0 $$; do :; done 2>/dev/null; sleep 0.02; echo late) & echo early"); stdout == "early\nlate\n" {
			return
		}
	}
	t.Errorf("got %q", stdout)
}

// The program is killed when the context ends, and the cause is reported.
func TestContextEndsProgram(t *testing.T) {
	sb := up(t, setup{})
	for _, script := range []string{"touch begun; exec sleep 1000", "trap '' TERM; touch begun; while :; do sleep 1; done"} {
		sb.forget()
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		client := sb.dial()
		go func() {
			_, err := client.Run(ctx, guestclient.Command{Argv: []string{"sh", "-c", script}}, guestclient.Stdio{})
			ended <- err
		}()
		sb.begun()
		cancel(io.ErrNoProgress)
		if err := <-ended; !errors.Is(err, io.ErrNoProgress) {
			t.Errorf("%s: %v", script, err)
		}
	}
	eventually(t, "nothing is left", func() bool { return len(sb.processes()) == 0 })
}

// When the client is gone its programs hear of it.
func TestClientGone(t *testing.T) {
	sb := up(t, setup{})
	for _, tty := range []bool{false, true} {
		client := sb.dial()
		go client.Run(context.WithoutCancel(t.Context()), guestclient.Command{Argv: []string{"sh", "-c", "sleep 1000; echo"}, TTY: tty}, guestclient.Stdio{In: blocked{t}})
		eventually(t, "the program runs", func() bool { return len(sb.processes()) > 0 })
		client.Close()
		eventually(t, "the program ended", func() bool { return len(sb.processes()) == 0 })
	}
}

// blocked is input that never comes.
type blocked struct{ t *testing.T }

func (b blocked) Read([]byte) (int, error) {
	<-b.t.Context().Done()
	return 0, io.EOF
}

func TestDirectoryAndEnvironment(t *testing.T) {
	sb := up(t, setup{})
	run := func(command guestclient.Command) (string, int) {
		var out bytes.Buffer
		exit, err := sb.dial().Run(t.Context(), command, guestclient.Stdio{Out: &out, Err: &out})
		must(t, err)
		return out.String(), exit.Code()
	}
	if got, _ := run(guestclient.Command{Argv: []string{"pwd"}}); got != sb.dir+"/work\n" {
		t.Errorf("pwd: %q", got)
	}
	if got, _ := run(guestclient.Command{Argv: []string{"pwd"}, Dir: "/usr"}); got != "/usr\n" {
		t.Errorf("pwd in /usr: %q", got)
	}
	if got, code := run(guestclient.Command{Argv: []string{"pwd"}, Dir: "/nowhere"}); code != 126 || !strings.Contains(got, "working directory") {
		t.Errorf("pwd in /nowhere: %q %d", got, code)
	}
	got, _ := run(guestclient.Command{Argv: []string{"env"}, Env: []string{"A=b", "LANG=x"}})
	for _, want := range []string{"A=b\n", "LANG=x\n", "FORAGE_SANDBOX=test\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if strings.Contains(got, "LANG=C.UTF-8") {
		t.Error("LANG is there twice")
	}
}
