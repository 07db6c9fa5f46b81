package guest_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/control"
	"forage/internal/guest"
	"forage/internal/guest/guestclient"
)

// Whatever runs inside may send PID 1 any signal.
func TestSignalsFromInsideAreSurvived(t *testing.T) {
	for name, setup := range map[string]setup{
		"unconfined": {unconfine: true},
		"confined":   {},
		// Here goroutines share threads, and the first thread is everybody's.
		"confined, one processor": {oneCPU: true},
	} {
		t.Run(name, func(t *testing.T) {
			sb := up(t, setup)
			script := "for i in 1 2; do for s in $(seq 1 64); do kill -$s 1 && echo sent; done; done; true"
			stdout, _, _ := sb.run("bash", "-c", script)
			if sent := stdout != ""; sent != setup.unconfine {
				t.Errorf("signals were sent: %v", sent)
			}
			if stdout, _, code := sb.run("echo", "still here"); stdout != "still here\n" || code != 0 {
				t.Errorf("got %q code %d", stdout, code)
			}
		})
	}
}

func TestSignalsFromOutsideAreSurvived(t *testing.T) {
	sb := up(t, setup{})
	for sig := unix.Signal(1); sig < 32; sig++ {
		if sig != unix.SIGKILL && sig != unix.SIGSTOP {
			unix.Kill(sb.pid, sig)
		}
	}
	if _, _, code := sb.run("true"); code != 0 {
		t.Error("PID 1 does not work any more")
	}
}

// PID 1 is closed to what runs inside with the same user id.
func TestPID1IsClosed(t *testing.T) {
	sb := up(t, setup{})
	for _, path := range []string{"mem", "environ", "maps", "fd/0", "exe", "root/", "cwd/", "task/1/mem", "io"} {
		if stdout, _, code := sb.run("sh", "-c", "head -c 1 /proc/1/"+path); code == 0 {
			t.Errorf("/proc/1/%s can be read: %q", path, stdout)
		}
	}
	if stdout, _, code := sb.run("sh", "-c", "ls /proc/1/fd"); code == 0 {
		t.Errorf("/proc/1/fd can be listed: %s", stdout)
	}
}

func TestOrphansAreReaped(t *testing.T) {
	sb := up(t, setup{})
	// Many orphans at once, and programs whose status must not be lost among them.
	client := sb.dial()
	failed := make(chan error, 20)
	for i := range 20 {
		go func() {
			exit, err := client.Run(t.Context(), guestclient.Command{Argv: []string{"sh", "-c",
				fmt.Sprintf("for i in $(seq 50); do (true &) & done; exit %d", i)}}, guestclient.Stdio{})
			if err == nil && exit.Code() != i {
				err = fmt.Errorf("status %d, want %d", exit.Code(), i)
			}
			failed <- err
		}()
	}
	for range 20 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	eventually(t, "nothing is left", func() bool { return len(sb.processes()) == 0 })
}

// stubborn ends by SIGKILL only. It says in the file "begun" that it does.
const stubborn = "trap '' TERM HUP INT; touch begun; while :; do sleep 1000; done"

// background starts a daemon inside that has left its session, and waits until
// it has made the file "begun".
func background(sb *sandbox, script string) {
	sb.t.Helper()
	if _, stderr, code := sb.run("sh", "-c", "setsid sh -c '"+strings.ReplaceAll(script, "'", `'\''`)+"' >/dev/null 2>&1 </dev/null &"); code != 0 {
		sb.t.Fatal(stderr)
	}
	sb.begun()
}

func (sb *sandbox) begun() {
	sb.t.Helper()
	eventually(sb.t, "it has begun", func() bool { _, err := os.Stat(sb.dir + "/work/begun"); return err == nil })
}

func TestControlEndKillsEverything(t *testing.T) {
	sb := up(t, setup{})
	background(sb, stubborn)
	sb.conn.Close()
	sb.waitEnd() // and of all else in its namespace, which ends before (pid_namespaces(7))
}

func TestStopEndsDaemons(t *testing.T) {
	sb := up(t, setup{})
	mark := sb.dir + "/work/terminated"
	background(sb, "trap 'touch "+mark+"; exit' TERM; touch begun; while :; do sleep 0.05; done")
	sb.stop(time.Hour) // which isn't waited for: everything ends when asked
	sb.waitEnd()
	if _, err := os.Stat(mark); err != nil {
		t.Error("the daemon was not asked to end:", err)
	}
	if !sb.state.Success() {
		t.Error("PID 1 ended with", sb.state)
	}
}

func TestStopKillsAfterGrace(t *testing.T) {
	sb := up(t, setup{})
	background(sb, stubborn)
	started := time.Now()
	sb.stop(300 * time.Millisecond)
	sb.waitEnd()
	if took := time.Since(started); took < 300*time.Millisecond {
		t.Errorf("killed after %v", took)
	}
}

// An interactive shell ignores SIGTERM; its terminal is taken away.
func TestStopEndsInteractiveShells(t *testing.T) {
	sb := up(t, setup{})
	go sb.dial().Run(t.Context(), guestclient.Command{Argv: []string{"bash", "-i"}, TTY: true}, guestclient.Stdio{In: blocked{t}})
	eventually(t, "the shell runs", func() bool { return len(sb.processes()) > 0 })
	sb.stop(time.Hour)
	sb.waitEnd()
}

func failure(t *testing.T, sb *sandbox) control.Failure {
	t.Helper()
	frame := sb.ask(control.Frame{Kind: control.Go})
	if frame.Kind != control.Failed {
		t.Fatalf("answered %s", frame.Kind)
	}
	var failure control.Failure
	must(t, frame.Decode(&failure))
	return failure
}

func TestInitCommands(t *testing.T) {
	sb := up(t, setup{config: func(c *guest.Config) {
		c.Init = []string{"echo one >>order", "echo two >>order; sleep 1000 >/dev/null 2>&1 </dev/null &", "echo $FORAGE_SANDBOX >>order"}
	}})
	order, err := os.ReadFile(sb.dir + "/work/order")
	must(t, err)
	if string(order) != "one\ntwo\ntest\n" {
		t.Errorf("got %q", order)
	}
}

func TestInitCommandFails(t *testing.T) {
	sb := boot(t, setup{config: func(c *guest.Config) {
		c.Init = []string{"true", "yes noise | head -c 10000000; echo reason >&2; exit 3", "touch never"}
	}})
	failure := failure(t, sb)
	if !strings.Contains(failure.Error, "exit status 3") || !strings.HasSuffix(failure.Error, "reason") || failure.Step != "running the init commands" {
		t.Errorf("got %+v", failure)
	}
	if _, err := os.Stat(sb.dir + "/work/never"); err == nil {
		t.Error("the next one ran nevertheless")
	}
}

func TestBadConfiguration(t *testing.T) {
	for name, change := range map[string]func(*guest.Config){
		"host key":           func(c *guest.Config) { c.HostKey = c.HostKey[:5] },
		"authorized key":     func(c *guest.Config) { c.AuthorizedKeys = []string{"nonsense"} },
		"restricted key":     func(c *guest.Config) { c.AuthorizedKeys[0] = `command="true" ` + c.AuthorizedKeys[0] },
		"tmux is not there":  func(c *guest.Config) { c.Session, c.Command, c.Env = true, []string{"true"}, []string{"PATH=/nowhere"} },
		"agent is not there": func(c *guest.Config) { c.Session, c.Command = true, []string{"no-such-agent"} },
	} {
		t.Run(name, func(t *testing.T) {
			sb := boot(t, setup{config: change})
			failure := failure(t, sb)
			t.Logf("%+v", failure)
			if failure.Error == "" {
				t.Error("no reason")
			}
			if strings.HasSuffix(name, "not there") && failure.Hint == "" {
				t.Error("no hint")
			}
		})
	}
}

// With a limit the agent's tree can't grow beyond it, and PID 1 still works.
func TestTasksMax(t *testing.T) {
	const limit = 40
	sb := up(t, setup{config: func(c *guest.Config) { c.TasksMax = limit }})
	sb.run("sh", "-c", "while :; do sleep 1000 </dev/null >/dev/null 2>&1 & done 2>/dev/null") // ends when it can't fork
	inside := len(sb.processes())
	if inside > limit || inside < limit/2 {
		t.Errorf("%d processes with a limit of %d", inside, limit)
	}
	if _, stderr, code := sb.run("true"); code != 0 {
		t.Errorf("a full sandbox starts nothing: %d %q", code, stderr)
	}
	if _, _, code := sb.run("no-such-program"); code != 127 {
		t.Errorf("code %d", code)
	}
	if _, _, code := sb.run("sh", "-c", "kill -KILL $$"); code != 137 {
		t.Errorf("code %d", code)
	}
}

// Nothing wakes up an idle guest.
func TestIdle(t *testing.T) {
	sb := up(t, setup{})
	sb.run("true")
	var before, after string
	eventually(t, "it settles", func() bool {
		before = switches(t, sb.pid)
		time.Sleep(1200 * time.Millisecond)
		after = switches(t, sb.pid)
		return before == after
	})
	out, _ := exec.Command("grep", "-E", "^(Pss|Rss|Private_Dirty|Private_Clean)", fmt.Sprintf("/proc/%d/smaps_rollup", sb.pid)).Output()
	t.Logf("%s", out)
}

// switches are the context switches of all threads of a process.
func switches(t *testing.T, pid int) string {
	out, err := exec.Command("sh", "-c", fmt.Sprintf("cat /proc/%d/task/*/status | grep ctxt", pid)).Output()
	must(t, err)
	return string(out)
}
