package guest_test

import (
	"bytes"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/guest/guestclient"
)

// screen is what a terminal has shown.
type screen struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (p *ptyPair) watch() *screen {
	s := &screen{}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := p.master.Read(buf)
			s.mu.Lock()
			s.buf.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return s
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

func (s *screen) shows(t *testing.T, text string) {
	t.Helper()
	eventually(t, "the terminal shows "+text, func() bool { return strings.Contains(s.String(), text) })
}

func TestTerminal(t *testing.T) {
	sb := up(t, setup{})
	terminal := openPTY(t)
	screen := terminal.watch()
	before, err := unix.IoctlGetTermios(int(terminal.slave.Fd()), unix.TCGETS)
	must(t, err)
	type result struct {
		exit guestclient.Exit
		err  error
	}
	done := make(chan result, 1)
	go func() {
		exit, err := sb.dial().Run(t.Context(), guestclient.Command{Argv: []string{"bash", "--norc", "-i"}, TTY: true, Term: "vt100"},
			guestclient.Stdio{In: terminal.slave, Out: terminal.slave})
		done <- result{exit, err}
	}()
	type step struct{ types, shows string }
	for _, step := range []step{
		{"echo $((6*7)) $TERM $(tty | cut -c-9)\r", "42 vt100 /dev/pts/"},
		{"stty size\r", "31 97"},
		{"trap 'echo size $(stty size)' WINCH; echo se''t\r", "set\r\n"},
	} {
		terminal.master.WriteString(step.types)
		screen.shows(t, step.shows)
	}
	must(t, unix.IoctlSetWinsize(int(terminal.slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 111, Row: 44}))
	unix.Kill(os.Getpid(), unix.SIGWINCH) // it is not our controlling terminal
	screen.shows(t, "size 44 111")
	terminal.master.WriteString("sleep 1000\r")
	eventually(t, "sleep runs", func() bool { return strings.Contains(strings.Join(sb.processes(), "\n"), "sleep 1000") })
	terminal.master.WriteString("\x03")
	terminal.master.WriteString("echo code $?\r")
	screen.shows(t, "code 130")
	terminal.master.WriteString("exit 5\r")
	if got := <-done; got.err != nil || got.exit.Status != 5 {
		t.Errorf("ended with %+v", got)
	}
	after, err := unix.IoctlGetTermios(int(terminal.slave.Fd()), unix.TCGETS)
	must(t, err)
	if *before != *after {
		t.Error("the terminal's modes were not restored")
	}
}

// What is typed after the program ended stays for the next reader.
func TestInputIsNotEaten(t *testing.T) {
	sb := up(t, setup{})
	for range 20 {
		read, write, err := os.Pipe()
		must(t, err)
		_, err = sb.dial().Run(t.Context(), guestclient.Command{Argv: []string{"true"}}, guestclient.Stdio{In: read})
		must(t, err)
		write.WriteString("mine")
		write.Close()
		if got, _ := io.ReadAll(read); string(got) != "mine" {
			t.Fatalf("left %q", got)
		}
		read.Close()
	}
}

// The output of a program that ends at once is whole on a terminal too.
func TestTerminalOutputIsWhole(t *testing.T) {
	sb := up(t, setup{})
	client := sb.dial()
	for i := range 100 {
		var out bytes.Buffer
		exit, err := client.Run(t.Context(), guestclient.Command{Argv: []string{"seq", "2000"}, TTY: true}, guestclient.Stdio{In: blocked{t}, Out: &out})
		must(t, err)
		if !strings.HasSuffix(out.String(), "\r\n2000\r\n") || exit.Code() != 0 {
			t.Fatalf("round %d: %d bytes, code %d", i, out.Len(), exit.Code())
		}
	}
}

// A terminal that disappears takes the program with it.
func TestTerminalDisappears(t *testing.T) {
	sb := up(t, setup{})
	terminal := openPTY(t)
	done := make(chan error, 1)
	go func() {
		_, err := sb.dial().Run(t.Context(), guestclient.Command{Argv: []string{"sh", "-c", "while :; do echo x; sleep 0.01; done"}, TTY: true},
			guestclient.Stdio{In: terminal.slave, Out: terminal.slave})
		done <- err
	}()
	eventually(t, "it runs", func() bool { return len(sb.processes()) > 0 })
	terminal.master.Close()
	select {
	case err := <-done:
		must(t, err)
	case <-time.After(patience):
		t.Fatal("Run does not return")
	}
	eventually(t, "nothing is left", func() bool { return len(sb.processes()) == 0 })
}

// Signals of the client's process are the program's; the second one kills it.
func TestSignalsAreForwarded(t *testing.T) {
	sb := up(t, setup{})
	// Also where the tests' caller has some of them ignored, as nohup(1) does: what is handled here
	// is not.
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGHUP)
	for _, test := range []struct {
		name    string
		script  string
		signals []unix.Signal
		code    int
	}{
		{"SIGINT", "trap 'exit 9' INT; touch begun; while :; do sleep 0.01; done", []unix.Signal{unix.SIGINT}, 9},
		{"SIGTERM", "touch begun; exec sleep 1000", []unix.Signal{unix.SIGTERM}, 128 + 15},
		{"SIGHUP", "touch begun; exec sleep 1000", []unix.Signal{unix.SIGHUP}, 128 + 1},
		{"SIGQUIT", "touch begun; exec sleep 1000", []unix.Signal{unix.SIGQUIT}, 128 + 3},
		{"twice", "trap 'touch begun' INT; touch begun; while :; do sleep 0.01; done", []unix.Signal{unix.SIGINT, unix.SIGINT}, 128 + 9},
	} {
		t.Run(test.name, func(t *testing.T) {
			sb.forget()
			done := make(chan guestclient.Exit, 1)
			go func() {
				exit, err := sb.dial().Run(t.Context(), guestclient.Command{Argv: []string{"sh", "-c", test.script}}, guestclient.Stdio{})
				if err != nil {
					t.Error(err)
				}
				done <- exit
			}()
			for i, sig := range test.signals {
				sb.begun() // or has had the signal before
				if i > 0 {
					time.Sleep(200 * time.Millisecond) // this one is meant
				}
				sb.forget()
				unix.Kill(os.Getpid(), sig)
			}
			select {
			case exit := <-done:
				if exit.Code() != test.code {
					t.Errorf("code %d, want %d", exit.Code(), test.code)
				}
			case <-time.After(patience):
				t.Fatal("Run does not return")
			}
		})
	}
}
