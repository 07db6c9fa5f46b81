package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// tracing is what a tracer is told. It is this test's program once more: who traces has to wait for all of its children, while
// the test waits for each of its own. It runs a command, and kills that, or the supervisor that it starts, on the
// entry of a system call that would change a file: the call isn't made.
type tracing struct {
	Supervisor bool     // its steps are counted, and it is killed
	Step       int      // that isn't made, from 1 on
	Quiet      []string // a change below these folders is no step
}

// tracingVariable makes a tracer of this test's program.
const tracingVariable = "FORAGE_FAULT_TRACING"

// traced is what a tracer answers.
type traced struct {
	Refused string // why nothing can be traced here
	Killed  bool
	Steps   int    // until then
	At      string // the call that wasn't made
	Exit    int    // of the command, if that wasn't what was killed
}

// trace is the tracer's main.
func trace(text string) int {
	runtime.LockOSThread() // it is a thread that traces
	t := &tracer{known: make(map[int]bool)}
	err := json.Unmarshal([]byte(text), &t.tracing)
	if err == nil {
		err = t.run(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tracing:", err)
		return 1
	}
	answer, _ := json.Marshal(t.traced)
	fmt.Println(string(answer))
	return 0
}

type tracer struct {
	tracing
	traced
	root  int
	known map[int]bool // threads
	dying int          // process that was killed and isn't gone yet
	held  int          // thread that was about to make the step
	over  bool
}

func (t *tracer) run(argv []string) error {
	os.Unsetenv(tracingVariable)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		t.Refused = err.Error()
		return nil
	}
	t.root = cmd.Process.Pid
	var status unix.WaitStatus
	if _, err := waitFor(t.root, &status); err != nil {
		return err
	}
	const options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC
	if err := unix.PtraceSetOptions(t.root, options); err != nil {
		return err
	}
	t.known[t.root] = true
	t.resume(t.root, 0)
	for {
		pid, err := waitFor(-1, &status)
		switch {
		case err != nil:
			return err
		case status.Stopped():
			t.stopped(pid, status)
		case pid == t.root:
			t.Exit = status.ExitStatus()
			return nil // what else is traced goes on by itself
		case pid == t.dying:
			t.over = true
			t.resume(t.held, 0)
		}
	}
}

func waitFor(pid int, status *unix.WaitStatus) (int, error) {
	for {
		got, err := unix.Wait4(pid, status, unix.WALL, nil)
		if !errors.Is(err, unix.EINTR) {
			return got, err
		}
	}
}

// resume lets a thread go on to its next system call; when all is over, without an end.
func (t *tracer) resume(pid int, signal unix.Signal) {
	if t.over {
		_ = unix.PtraceCont(pid, int(signal)) // it may be gone
		return
	}
	_ = unix.PtraceSyscall(pid, int(signal))
}

func (t *tracer) stopped(pid int, status unix.WaitStatus) {
	switch signal := status.StopSignal(); {
	case signal == unix.SIGTRAP|0x80:
		if !t.stays(pid) {
			t.resume(pid, 0)
		}
	case status.TrapCause() > 0: // a child was made, a program executed
		t.resume(pid, 0)
	case signal == unix.SIGSTOP && !t.known[pid]: // with which each child begins
		t.known[pid] = true
		if inside(pid) {
			_ = unix.PtraceDetach(pid)
			return
		}
		t.resume(pid, 0)
	default:
		t.resume(pid, signal)
	}
}

// inside says whether a process is in another user namespace, and so in a sandbox: its steps are none of ours.
func inside(pid int) bool {
	own, _ := os.Readlink("/proc/self/ns/user")
	its, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", pid))
	return own != its
}

// stays counts a step, and says whether the thread stays before it, since it was the last.
func (t *tracer) stays(pid int) bool {
	if t.dying != 0 {
		return false
	}
	what := change(pid, t.Quiet)
	if what == "" {
		return false
	}
	victim := t.victim(pid)
	if victim == 0 {
		return false
	}
	if t.Steps++; t.Steps < t.Step {
		return false
	}
	t.Killed, t.At, t.dying, t.held = true, what, victim, pid
	_ = unix.Kill(victim, unix.SIGKILL)
	return true
}

// victim is the process that is to be killed for a step of this thread: itself, or the one that started it. 0 is none.
func (t *tracer) victim(pid int) int {
	for pid > 1 {
		group, parent := family(pid)
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", group))
		supervisor := bytes.HasPrefix(command, []byte("forage-ctl\x00supervisor"))
		switch {
		case supervisor && t.Supervisor, group == t.root && !t.Supervisor:
			return group
		case supervisor || group == t.root:
			return 0
		}
		pid = parent
	}
	return 0
}

// family is the process that a thread is of, and its parent: proc_pid_status(5).
func family(pid int) (group, parent int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		switch n, _ := strconv.Atoi(strings.TrimSpace(value)); key {
		case "Tgid":
			group = n
		case "PPid":
			parent = n
		}
	}
	return group, parent
}
