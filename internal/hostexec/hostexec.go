// Package hostexec runs programs of the host on Forage's behalf, and is the only
// place that does: with exact arguments and no shell, an environment made from
// nothing, a bounded time and bounded output. It runs nothing inside sandboxes,
// and nothing that a sandbox could have written.
package hostexec

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"forage/internal/deadline"

	"golang.org/x/sys/unix"
)

// systemPath is where programs are looked for: the system's folders, never
// the caller's PATH, in which a project's own folder could be.
var systemPath = [...]string{"/run/wrappers/bin", "/run/current-system/sw/bin", "/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/usr/sbin", "/bin", "/sbin"}

// DefaultOutput bounds each stream of a Command that names no bound, in bytes.
const DefaultOutput = 1 << 20

// ErrNoProgram says that a program is not in the system's folders.
var ErrNoProgram = errors.New("not installed in the system's folders")

// ErrCPU says that a program was ended at its Command.CPU.
var ErrCPU = errors.New("it took too much of the processor's time")

// Command is what to run.
type Command struct {
	Argv []string // Argv[0] is a name, looked up in the system's folders, or an absolute path
	// Env is added to PATH and LC_ALL=C.UTF-8, which is all there is otherwise.
	Env     []string
	Stdin   []byte        // nil is /dev/null
	Input   io.Reader     // in the place of Stdin: what is too big to hold. A Read of it may go on when the program has ended
	Dir     string        // "" is the root folder
	Timeout time.Duration // 0 is deadline.Answer
	Output  int           // bytes of each stream that are kept; 0 is DefaultOutput
	// Memory bounds, in bytes, what the program may have for itself, from a moment after its start
	// on: getrlimit(2), RLIMIT_DATA. 0 is without a bound
	Memory uint64
	// CPU bounds the processor's time that the program may take, in whole seconds: getrlimit(2),
	// RLIMIT_CPU. 0 is without a bound. Unlike Timeout it leaves one that waits its time, for a
	// slow disk or on a busy machine
	CPU time.Duration
	// Locks says that the program takes locks that outlive it if it is killed, and lets them go
	// when it is asked to end: it is asked first, also when this process dies.
	Locks bool
	// Outlives says that the program ends by itself in a moment and is not to be kept from it,
	// whether the context ends or this process dies: asked to end in the instant in which it takes
	// a lock, it would leave that. It is killed only if it takes much longer than that moment; what
	// it has done is done, and no error because of the context. A process that waits for a lock of
	// ours waits for it too: see Hold.
	Outlives bool
	Writer   io.Writer // gets standard output, all of it, in the place of Output.Stdout; when it fails, so does the program
}

// Output is what a command wrote, cut at its bound.
type Output struct {
	Stdout, Stderr []byte
}

// Run runs c and waits for it. The error is ErrNoProgram, ErrCPU, the context's,
// context.DeadlineExceeded at c.Timeout, or an *exec.ExitError; the output is there in each case.
// What the command started is killed with it.
func Run(ctx context.Context, c Command) (Output, error) {
	if len(c.Argv) == 0 {
		return Output{}, errors.New("running a program: no name")
	}
	program, err := Find(c.Argv[0])
	if err != nil {
		return Output{}, err
	}
	ctx, cancel := deadline.Within(ctx, cmp.Or(c.Timeout, deadline.Answer), "it")
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	bound := cmp.Or(c.Output, DefaultOutput)
	stdout, stderr := &capped{left: bound}, &capped{left: bound}
	cmd := c.prepare(ctx, program)
	cmd.Stderr = stderr
	feed, err := c.feed(cmd)
	if err != nil {
		return Output{}, err
	}
	pass, err := c.pass(ctx, cmd, stdout)
	if err != nil {
		return Output{}, err
	}
	start := cmd.Start
	if c.Outlives {
		start = func() error { return startHolding(cmd) }
	}
	if err = start(); err == nil {
		if err = c.bound(cmd.Process.Pid); err != nil {
			giveUp(fmt.Errorf("bounding what it may take: %w", err))
		}
		fed := feed()
		passed := pass()
		err = errors.Join(err, cmd.Wait())
		select {
		case fedErr := <-fed: // else what it would have read next is not waited for
			passed = cmp.Or(passed, fedErr)
		default:
		}
		err = cmp.Or(err, passed)
		if c.CPU > 0 && spent(cmd.ProcessState, c.CPU) {
			err = ErrCPU
		}
	}
	if ctx.Err() != nil && !(c.Outlives && err == nil) {
		err = context.Cause(ctx)
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what was only asked to end, and what it left
		}
	}
	if err != nil {
		err = fmt.Errorf("running %s: %w", filepath.Base(program), err)
	}
	return Output{stdout.kept, stderr.kept}, err
}

// feed makes cmd read Input, from when the returned function is called on. Its channel then gets
// why not all could be read, before the program sees the end.
func (c Command) feed(cmd *exec.Cmd) (func() <-chan error, error) {
	if c.Input == nil {
		return func() <-chan error { return nil }, nil
	}
	in, err := cmd.StdinPipe()
	return func() <-chan error {
		fed := make(chan error, 1)
		go func() {
			defer in.Close()
			_, err := io.Copy(in, c.Input)
			if errors.Is(err, unix.EPIPE) || errors.Is(err, os.ErrClosed) { // it reads no more, as it may
				err = nil
			}
			fed <- err
		}()
		return fed
	}, err
}

// pass makes cmd write to Writer when the returned function is called, which waits until the reader
// has finished: a pager may be open. Without a Writer it writes to kept.
func (c Command) pass(ctx context.Context, cmd *exec.Cmd, kept io.Writer) (func() error, error) {
	if c.Writer == nil {
		cmd.Stdout = kept
		return func() error { return nil }, nil
	}
	out, err := cmd.StdoutPipe()
	return func() error {
		defer context.AfterFunc(ctx, func() { out.Close() })()
		defer out.Close() // or the program would wait for a reader
		_, err := io.Copy(c.Writer, out)
		return err
	}, err
}

// prepare says what program is to get, and how it is to end.
func (c Command) prepare(ctx context.Context, program string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, c.Argv[1:]...)
	cmd.Env = append(environment(), c.Env...)
	cmd.Dir = cmp.Or(c.Dir, "/")
	if c.Stdin != nil {
		cmd.Stdin = bytes.NewReader(c.Stdin)
	}
	end := syscall.SIGKILL
	cmd.WaitDelay = deadline.End // then it is killed, and what holds its output is not waited for
	if c.Locks {
		end = syscall.SIGTERM
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: end}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, end) }
	if c.Outlives {
		cmd.WaitDelay, cmd.SysProcAttr.Pdeathsig = deadline.Answer, 0
		cmd.Cancel = func() error { return os.ErrProcessDone } // as good as: Wait says how it ended
	}
	return cmd
}

// bound bounds a process that was just started, and what that starts. One that has ended already
// needs no bound.
func (c Command) bound(pid int) error {
	var errs []error
	if c.Memory > 0 {
		errs = append(errs, boundTo(pid, unix.RLIMIT_DATA, c.Memory))
	}
	if c.CPU > 0 { // with both the same it is killed, and leaves no core
		errs = append(errs, boundTo(pid, unix.RLIMIT_CPU, uint64(c.CPU/time.Second)))
	}
	err := errors.Join(errs...)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// boundTo sets both limits of getrlimit(2), to the hard one if that is less: only root may have
// more.
func boundTo(pid, resource int, most uint64) error {
	var now unix.Rlimit
	if err := unix.Prlimit(pid, resource, nil, &now); err != nil {
		return err
	}
	most = min(most, now.Max)
	return unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil)
}

// spent says whether a program was killed for the time it took, which the kernel counts for that by
// ticks.
func spent(state *os.ProcessState, bound time.Duration) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL && state.UserTime()+state.SystemTime() >= bound/2
}

func environment() []string { return []string{"PATH=" + Path(), "LC_ALL=C.UTF-8"} }

// Path is where programs are looked for, as PATH has it.
func Path() string { return strings.Join(systemPath[:], ":") }

// Find is the path of a program: an absolute one is taken as it is. The error is ErrNoProgram.
func Find(name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	for _, dir := range systemPath {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, ErrNoProgram)
}

// capped keeps the first bytes that are written to it and lets the rest go.
type capped struct {
	kept []byte
	left int
}

func (c *capped) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.left -= n
	c.kept = append(c.kept, p[:n]...)
	return len(p), nil
}
