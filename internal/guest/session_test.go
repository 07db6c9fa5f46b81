package guest_test

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"forage/internal/guest"
	"forage/internal/guest/guestclient"
)

// logged collects what comes out of the log's pipe.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (sb *sandbox) collectLog() *logged {
	l := &logged{}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := sb.log.Read(buf)
			l.mu.Lock()
			l.buf.Write(buf[:n])
			l.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return l
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func withAgent(argv ...string) setup {
	return setup{log: true, config: func(c *guest.Config) { c.Session, c.Command = true, argv }}
}

func (sb *sandbox) tmux(args ...string) string {
	sb.t.Helper()
	stdout, stderr, code := sb.run(append([]string{"tmux"}, args...)...)
	if code != 0 {
		sb.t.Fatalf("tmux %q: %d %s", args, code, stderr)
	}
	return strings.TrimSpace(stdout)
}

func TestSession(t *testing.T) {
	sb := boot(t, withAgent("sh", "-c", "echo agent speaking; pwd; exec cat"))
	log := sb.collectLog()
	sb.ready()
	if got := sb.tmux("list-windows", "-t", "forage", "-F", "#{session_name} #{window_index} #{window_name}"); got != "forage 0 agent" {
		t.Errorf("windows: %q", got)
	}
	eventually(t, "the agent's output is logged", func() bool {
		return strings.Contains(log.String(), "agent speaking\r\n"+sb.dir+"/work\r\n")
	})
	sb.tmux("send-keys", "-t", "forage:agent", "typed text", "Enter")
	eventually(t, "what comes later is logged too", func() bool { return strings.Count(log.String(), "typed text") == 2 })
	if got := sb.answered("session").Session; got != "detached" {
		t.Errorf("state %q", got)
	}
}

func (sb *sandbox) ready() {
	sb.t.Helper()
	if frame := sb.ask(goFrame); frame.Kind != "ready" {
		sb.t.Fatalf("the guest answered %s %s", frame.Kind, frame.Body)
	}
}

func TestSessionState(t *testing.T) {
	sb := up(t, withAgent("cat"))
	terminal := openPTY(t)
	done := make(chan error, 1)
	go func() {
		_, err := sb.dial().Run(t.Context(), guestclient.Command{Argv: []string{"tmux", "attach", "-t", "=forage"}, TTY: true},
			guestclient.Stdio{In: terminal.slave, Out: terminal.slave})
		done <- err
	}()
	eventually(t, "it is attached", func() bool { return sb.query("session").Session == "attached" })
	sb.tmux("detach-client", "-s", "forage")
	must(t, <-done)
	eventually(t, "it is detached", func() bool { return sb.query("session").Session == "detached" })
	sb.tmux("kill-server")
	eventually(t, "it is gone", func() bool { return sb.query("session").Session == "none" })
}

func TestWindowIsStartedAgain(t *testing.T) {
	sb := boot(t, withAgent("sh", "-c", "echo started; exec cat"))
	log := sb.collectLog()
	sb.ready()
	starts := func(n int) func() bool { return func() bool { return strings.Count(log.String(), "started") == n } }
	eventually(t, "it has started", starts(1))
	if answer := sb.answered("window"); answer.Session != "detached" {
		t.Errorf("a running agent: %+v", answer)
	}

	sb.tmux("kill-server")
	sb.answered("window")
	eventually(t, "without a session it starts again", starts(2))

	sb.tmux("new-window", "-t", "forage", "-n", "other", "cat")
	sb.tmux("kill-window", "-t", "=forage:agent")
	sb.answered("window")
	eventually(t, "without its window it starts again", starts(3))
	if got := sb.tmux("list-windows", "-t", "forage", "-F", "#{window_index} #{window_name}"); got != "0 agent\n1 other" {
		t.Errorf("windows: %q", got)
	}

	sb.tmux("set-option", "-g", "remain-on-exit", "on")
	sb.tmux("send-keys", "-t", "forage:agent", "C-d")
	eventually(t, "the pane is dead", func() bool {
		return strings.HasPrefix(sb.tmux("list-panes", "-t", "forage:agent", "-F", "#{pane_dead}"), "1")
	})
	sb.answered("window")
	eventually(t, "in a dead pane it starts again", starts(4))
	sb.tmux("send-keys", "-t", "forage:agent", "and is logged", "Enter")
	eventually(t, "the log goes on", func() bool { return strings.Contains(log.String(), "and is logged") })
}

// tmux's own syntax changes nothing about the arguments.
func TestAgentGetsExactArguments(t *testing.T) {
	for _, argv := range [][]string{
		{"printf", "[%s]", "a b", "", "x;", `x\;`, ";", "$HOME", "'", `"`, "#{session_name}", "{", "}", "-t", "~", "\u00e9"},
		{"sh", "-c", "echo [hello];"},
	} {
		want := "[hello]\r\n"
		if argv[0] == "printf" {
			want = "[" + strings.Join(argv[2:], "][") + "]"
		}
		sb := boot(t, withAgent(argv...))
		log := sb.collectLog()
		sb.ready()
		eventually(t, "the agent printed", func() bool { return len(log.String()) >= len(want) })
		if diff := cmp.Diff(want, log.String()); diff != "" {
			t.Errorf("%q: %s", argv, diff)
		}
	}
}

// A program that answers in tmux's place can neither hang the guest nor break it.
func TestHostileTmux(t *testing.T) {
	sb := up(t, withAgent("cat"))
	sb.tmux("kill-server")
	background(sb, `exec python3 -c "
import socket, os, glob, time
path = glob.glob('`+sb.dir+`/tmux-*')[0] + '/default'
if os.path.exists(path): os.unlink(path)
s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen(5)
open('begun', 'w')
while True: c = s.accept()
"`)
	if answer := sb.query("session"); answer.Session != "none" || answer.Error == "" {
		t.Errorf("got %+v", answer)
	}
	if _, _, code := sb.run("true"); code != 0 {
		t.Error("the guest does not work any more")
	}
}

// What the agent does to the FIFO is no more than its own log's business.
func TestHostileFIFO(t *testing.T) {
	sb := boot(t, withAgent("sh", "-c", "exec cat"))
	log := sb.collectLog()
	sb.ready()
	stdout, _, code := sb.run("sh", "-c", "for f in "+sb.dir+"/log-*; do echo forged >$f; rm $f; done; echo removed")
	if code != 0 || stdout != "removed\n" {
		t.Fatalf("got %q %d", stdout, code)
	}
	eventually(t, "the log took it", func() bool { return strings.Contains(log.String(), "forged") })
	sb.stop(time.Second)
	sb.waitEnd()
}

// ptyPair is a terminal of the host's.
type ptyPair struct{ master, slave *os.File }

func openPTY(t *testing.T) *ptyPair {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(t, err)
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	must(t, unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 97, Row: 31}))
	t.Cleanup(func() { slave.Close(); master.Close() })
	return &ptyPair{master, slave}
}
