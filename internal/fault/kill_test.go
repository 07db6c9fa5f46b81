package fault

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/testdir"
)

// rounds is how often something is killed; FORAGE_FAULT_ROUNDS overrides it.
func rounds(t *testing.T) int {
	t.Helper()
	if text := os.Getenv("FORAGE_FAULT_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		testdir.Must(t, err)
		return n
	}
	if testdir.Soak() {
		return 500
	}
	return 30
}

// window is as long as the slowest of the interrupted commands takes.
const window = 250 * time.Millisecond

func TestKilledAtAnyInstant(t *testing.T) {
	w := newWorld(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	at := func() time.Duration { return time.Duration(random.Int64N(int64(window))) }

	faults := []struct {
		name string
		do   func()
	}{
		{"up", func() { w.interrupt(at(), "up", "box") }},
		{"run", func() { w.interrupt(at(), "run", "-w", ".", "--", "sleep", "0.05") }},
		{"down", func() { w.run("up", "box"); w.interrupt(at(), "down", "box") }},
		{"stop", func() { w.run("up", "box"); w.interrupt(at(), "stop", "box") }},
		{"start", func() { w.run("up", "box"); w.run("stop", "box"); w.interrupt(at(), "start", "box") }},
		{"reset", func() { w.run("up", "box"); w.interrupt(at(), "reset", "box") }},
		{"supervisor", func() { w.run("up", "box"); w.killSupervisor() }},
		{"guest", func() { w.run("up", "box"); w.killGuest() }},
		{"supervisor while starting", func() { w.killWhileStarting(at()) }},
		{"exec", func() { w.run("up", "box"); w.interrupt(at(), "exec", "box", "--", "sleep", "5") }},
		{"gc", func() { w.interrupt(at(), "up", "box"); w.interrupt(at(), "gc") }},
		{"up in a worktree", func() { w.interrupt(2*at(), "up", "box", "--git-worktree", w.repository) }},
		{"run in a worktree", func() {
			w.interrupt(2*at(), "run", "--git-worktree", w.repository, "--", "sleep", "0.05")
		}},
		{"down of a worktree", func() { w.run("up", "box", "--git-worktree", w.repository); w.interrupt(2*at(), "down", "box") }},
		{"gc of a worktree", func() {
			w.interrupt(2*at(), "up", "box", "--git-worktree", w.repository)
			w.interrupt(2*at(), "gc")
		}},
	}
	for i := range rounds(t) {
		fault := faults[random.IntN(len(faults))]
		fault.do()
		switch random.IntN(3) {
		case 0: // the next command finishes what was interrupted
			if exit, out := w.run("up", "box"); exit != 0 && !strings.Contains(out, "already running") && !strings.Contains(out, "is there already, and differs") {
				t.Fatalf("up after round %d, killing %s: exit %d\n%s", i, fault.name, exit, out)
			}
		case 1:
			w.must("gc")
		}
		w.await("what was being started to be running or undone", func() bool {
			w.must("gc")
			return !slices.ContainsFunc(w.statuses(), func(s status) bool { return s.Status == "creating" })
		})
		for _, s := range w.statuses() {
			w.must("down", s.Name)
		}
		w.must("gc")
		if w.clean(); t.Failed() {
			t.Fatalf("after round %d: killing %s", i, fault.name)
		}
	}
	if left := w.mounted(); len(left) > 0 {
		t.Errorf("mounts are left: %q", left)
	}
	w.portsAreFree()
}

func (w *world) killSupervisor() {
	for _, pid := range w.supervisors() {
		unix.Kill(pid, unix.SIGKILL)
	}
	w.await("the sandbox to end with its supervisor", func() bool { reap(); return len(processes()) == 0 })
}

func (w *world) killGuest() {
	for _, s := range w.statuses() {
		if s.GuestPID > 0 {
			unix.Kill(s.GuestPID, unix.SIGKILL)
		}
	}
	w.await("the supervisor to notice", func() bool { reap(); return len(w.supervisors()) == 0 })
}

// killWhileStarting kills the supervisor, and not the command that waits for it.
func (w *world) killWhileStarting(delay time.Duration) {
	up := w.command("up", "box")
	if err := up.Start(); err != nil {
		w.t.Fatal(err)
	}
	timer := time.NewTimer(delay)
	<-timer.C
	for _, pid := range descendants(up.Process.Pid) {
		unix.Kill(pid, unix.SIGKILL)
	}
	w.killSupervisorNow()
	up.Wait()
}

func (w *world) killSupervisorNow() {
	for _, pid := range w.supervisors() {
		unix.Kill(pid, unix.SIGKILL)
	}
}

// portsAreFree brings up as many sandboxes as there are ports.
func (w *world) portsAreFree() {
	w.t.Helper()
	for i := range 5 {
		w.must("up", "port"+strconv.Itoa(i))
	}
	if exit, out := w.run("up", "onemore"); exit != 4 {
		w.t.Errorf("a sixth sandbox on five ports: exit %d\n%s", exit, out)
	}
	w.must("down", "--all")
	w.clean()
}
