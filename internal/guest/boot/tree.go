// Package boot is what a sandbox's first process does for everything else that
// runs inside: it starts processes in the confined domain, reaps all of them,
// survives signals and ends everything when asked. It knows neither SSH nor tmux.
package boot

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrStopping is what Start fails with once everything is being ended.
var ErrStopping = errors.New("the sandbox is stopping")

// Options is what a Tree needs.
type Options struct {
	// Program is the path inside of this program, which is also the limit shim.
	Program string
	// Confine is called once, on the one thread that everything is started
	// from; what it puts on that thread all processes inherit, and this process does not.
	// Nil confines no further.
	Confine func() error
	// TasksMax bounds processes and threads of everything inside together
	// (RLIMIT_NPROC, per user namespace); 0 is no bound.
	TasksMax int64
	// KillFirst makes the kernel, when memory runs out, prefer everything
	// inside to this process.
	KillFirst bool
}

// Tree is everything that runs inside. Only the first process of a PID
// namespace can have one: it reaps every child and signals all processes there are.
type Tree struct {
	options Options
	null    *os.File
	starts  chan start

	mu       sync.Mutex // held over a fork, so that no status is reaped before its pid is known
	running  map[int]*Process
	stopping bool
	reaped   chan struct{} // poked when children have ended
}

// New makes this process the reaper of its PID namespace. From then on no signal ends it but
// SIGKILL from outside.
func New(options Options) (*Tree, error) {
	if os.Getpid() != 1 {
		return nil, errors.New("the guest is not the first process of a PID namespace")
	}
	// Opened before anything inside runs that could put something else there.
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	// What this process got is kept from children.
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("close_range: %w", err)
	}
	t := &Tree{
		options: options,
		null:    null,
		starts:  make(chan start),
		running: make(map[int]*Process),
		reaped:  make(chan struct{}, 1),
	}
	t.surviveSignals()
	if err = defaultReserved(); err == nil {
		err = t.startSpawner()
	}
	if err != nil {
		null.Close()
		return nil, err
	}
	return t, nil
}

// surviveSignals takes every signal that the runtime would die of (SIGQUIT
// among them). They mean nothing here: orders come over the control channel, and
// what runs inside may send any signal it likes.
func (t *Tree) surviveSignals() {
	var all []os.Signal
	for sig := syscall.Signal(1); sig < 32; sig++ {
		switch sig {
		case unix.SIGCHLD, unix.SIGKILL, unix.SIGSTOP, unix.SIGURG: // SIGURG is the runtime's own
		default:
			all = append(all, sig)
		}
	}
	signal.Notify(make(chan os.Signal, 1), all...) // never read: what doesn't fit is dropped
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	go func() {
		for range children {
			t.reap()
			select {
			case t.reaped <- struct{}{}:
			default: // a poke is waiting already
			}
		}
	}()
}

// defaultReserved ends the ignoring of the signals that C libraries keep to themselves and the
// runtime leaves as they came: glibc's posix_spawn hands them on ignored, so does all that make(1)
// starts.
func defaultReserved() error {
	var byDefault struct { // struct kernel_sigaction
		handler, flags, restorer uintptr
		mask                     uint64
	}
	for _, sig := range []uintptr{32, 34} { // SIGCANCEL of glibc, SIGSYNCCALL of musl; 33 is the runtime's own
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&byDefault)), 0, unsafe.Sizeof(byDefault.mask), 0, 0)
		if errno != 0 {
			return fmt.Errorf("setting signal %d to its default: %w", sig, errno)
		}
	}
	return nil
}

// reap takes the status of every child that ended: processes that were
// started here, and orphans that the kernel gave to PID 1. It reports whether no
// child is left.
func (t *Tree) reap() (alone bool) {
	for {
		t.mu.Lock()
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		process := t.running[pid]
		if pid > 0 {
			delete(t.running, pid)
		}
		t.mu.Unlock()
		switch {
		case err == unix.EINTR:
			continue
		case err != nil: // ECHILD
			return true
		case pid == 0:
			return false
		}
		if process != nil {
			process.status = status
			close(process.done)
		}
	}
}

// Stop ends everything inside: SIGTERM to all, SIGKILL to what is left after
// grace. Nothing can be started any more. It returns when nothing is left, or when the kernel does
// the rest: see Kill.
func (t *Tree) Stop(grace time.Duration) {
	t.mu.Lock()
	t.stopping = true
	t.mu.Unlock()
	everybody(unix.SIGTERM)
	everybody(unix.SIGCONT) // a stopped process acts on SIGTERM only then
	if !t.waitAlone(grace) {
		t.Kill()
	}
}

// Kill kills everything inside and doesn't wait: when this process exits, the
// kernel does the rest (pid_namespaces(7)).
func (t *Tree) Kill() {
	t.mu.Lock()
	t.stopping = true
	t.mu.Unlock()
	everybody(unix.SIGKILL)
}

// waitAlone waits until nothing else runs, and reports whether it came to that.
func (t *Tree) waitAlone(limit time.Duration) bool {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for !t.reap() {
		select {
		case <-t.reaped:
		case <-timeout.C:
			return false
		}
	}
	return true
}

// everybody signals all processes of the PID namespace but this one (kill(2): pid -1).
func everybody(sig syscall.Signal) {
	if os.Getpid() == 1 {
		unix.Kill(-1, sig)
	}
}

// startSpawner runs the goroutine, locked to its thread, that everything is
// started from. It lives as long as the process.
func (t *Tree) startSpawner() error {
	confined := make(chan error)
	go t.spawn(confined)
	if err := <-confined; err != nil {
		return fmt.Errorf("confining what runs inside: %w", err)
	}
	return nil
}

func (t *Tree) spawn(confined chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// Whether a process may be signalled is judged by its first thread's
		// Landlock domain: it must not be this one's. The next goroutine gets
		// another thread, since this one is taken until it has.
		next := make(chan error)
		go t.spawn(next)
		confined <- <-next
		runtime.UnlockOSThread()
		return
	}
	confined <- t.prepareThread()
	for s := range t.starts {
		s.answer <- t.fork(s)
	}
}
