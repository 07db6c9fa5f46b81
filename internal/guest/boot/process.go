package boot

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Command is one program to start. It gets a session of its own, default
// signals, no descriptors but its three, and exactly the given environment.
type Command struct {
	Argv []string // Argv[0] is looked up on the PATH of Env
	Path string   // if set, is executed instead of looking Argv[0] up
	Env  []string // "K=V"
	Dir  string   // working directory: absolute, "" is /
	// Stdin, Stdout and Stderr are the child's ends, blocking; nil is /dev/null.
	// The caller closes its own once Start returns.
	Stdin, Stdout, Stderr *os.File
	// Terminal makes Stdin the controlling terminal.
	Terminal bool
}

// Process is a program that was started. It is the leader of its session and
// process group.
type Process struct {
	tree   *Tree
	pid    int
	done   chan struct{}
	status unix.WaitStatus
}

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Status is how the program ended; it may be read after Done.
func (p *Process) Status() unix.WaitStatus { return p.status }

// Group is the process group, which is also the process id.
func (p *Process) Group() int { return p.pid }

// Signal sends sig to the program and its process group, unless the program
// has ended: its number may be another's by then.
func (p *Process) Signal(sig syscall.Signal) {
	p.tree.mu.Lock()
	defer p.tree.mu.Unlock()
	if p.tree.running[p.pid] == p {
		unix.Kill(-p.pid, sig)
	}
}

// SignalGroup sends sig to another process group of the program's session (a
// shell's foreground job), unless the program has ended.
func (p *Process) SignalGroup(group int, sig syscall.Signal) {
	p.tree.mu.Lock()
	defer p.tree.mu.Unlock()
	if p.tree.running[p.pid] != p || group <= 1 {
		return
	}
	if session, err := unix.Getsid(group); err == nil && session == p.pid {
		unix.Kill(-group, sig)
	}
}

// StartError says that a program did not start. Its Code is what a shell
// would return (POSIX 2.8.2): 127 when there is no such program, 126 when it can't be executed.
type StartError struct {
	Code int
	Err  error
}

func (e *StartError) Error() string { return e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }

// start is a request to the spawner.
type start struct {
	command Command
	path    string
	answer  chan started
}

type started struct {
	process *Process
	err     error
}

// Start starts a program; a program that can't be is a StartError.
func (t *Tree) Start(command Command) (*Process, error) {
	if len(command.Argv) == 0 {
		return nil, &StartError{127, errors.New("no program given")}
	}
	if command.Dir == "" {
		command.Dir = "/"
	}
	path := command.Path
	if path == "" {
		var err error
		if path, err = LookPath(command.Argv[0], command.Env, command.Dir); err != nil {
			return nil, err
		}
	}
	if info, err := os.Stat(command.Dir); err != nil {
		return nil, &StartError{126, fmt.Errorf("working directory: %w", err)}
	} else if !info.IsDir() {
		return nil, &StartError{126, fmt.Errorf("working directory: %s is not a directory", command.Dir)}
	}
	s := start{command: command, path: path, answer: make(chan started, 1)}
	t.starts <- s
	answer := <-s.answer
	return answer.process, answer.err
}

// prepareThread makes the calling thread the spawner's.
func (t *Tree) prepareThread() error {
	// Children inherit the thread's mask; ours came from the host.
	var none unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &none, nil); err != nil {
		return err
	}
	if t.options.Confine == nil {
		return nil
	}
	return t.options.Confine()
}

// fork runs on the spawner's thread.
func (t *Tree) fork(s start) started {
	path, argv := s.path, s.command.Argv
	if t.options.TasksMax > 0 || t.options.KillFirst {
		path, argv = t.options.Program, t.limited(path, argv)
	}
	attr := &syscall.ProcAttr{
		Dir:   s.command.Dir,
		Env:   s.command.Env,
		Files: []uintptr{t.descriptor(s.command.Stdin), t.descriptor(s.command.Stdout), t.descriptor(s.command.Stderr)},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: s.command.Terminal},
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopping {
		return started{err: ErrStopping}
	}
	pid, err := syscall.ForkExec(path, argv, attr)
	if err == unix.ENOEXEC { // a script without "#!": as execvp(3) does
		path, argv = asScript(path, argv)
		pid, err = syscall.ForkExec(path, argv, attr)
	}
	runtime.KeepAlive(s)
	if err != nil {
		return started{err: &StartError{126, fmt.Errorf("%s: %w", argv[0], err)}}
	}
	process := &Process{tree: t, pid: pid, done: make(chan struct{})}
	t.running[pid] = process
	return started{process: process}
}

func (t *Tree) descriptor(file *os.File) uintptr {
	if file == nil {
		file = t.null
	}
	return file.Fd()
}

func asScript(path string, argv []string) (string, []string) {
	return shell, append([]string{shell, path}, argv[1:]...)
}

// limited wraps argv in the limit shim (Limit).
func (t *Tree) limited(path string, argv []string) []string {
	tasks := "0"
	if t.options.TasksMax > 0 {
		// This process is in the same user namespace and is counted with the rest.
		own, _ := os.ReadDir("/proc/self/task")
		tasks = strconv.FormatInt(t.options.TasksMax+int64(len(own)), 10)
	}
	killFirst := "0"
	if t.options.KillFirst {
		killFirst = "1"
	}
	return append([]string{LimitName, tasks, killFirst, path}, argv...)
}
