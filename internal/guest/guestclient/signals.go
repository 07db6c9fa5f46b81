package guestclient

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"forage/internal/deadline"
	"forage/internal/guest/wire"
)

// impatience is how long after the first signal a second one is meant: timeout(1)
// sends each twice, to the process and to its group.
const impatience = 100 * time.Millisecond

// Interruption is an error that may be the cause of a context's end: a signal that this
// process received. Run, which sees signals by itself, then doesn't take the end of
// its context for more than that signal.
type Interruption interface {
	error
	Signal() os.Signal
}

// interruption is the signal that cause stands for, if it stands for one.
func interruption(cause error) (syscall.Signal, bool) {
	interrupted, ok := errors.AsType[Interruption](cause)
	if !ok {
		return 0, false
	}
	sig, ok := interrupted.Signal().(syscall.Signal)
	return sig, ok
}

// signals passes on what this process is told, until the program has ended:
//
//   - without a terminal SIGINT, SIGTERM, SIGHUP and SIGQUIT go to the program; the
//     second of them, unless it follows at once, kills it, and so does deadline.End after
//     SIGTERM and SIGHUP, which mean that we have to end;
//   - with a terminal keys are passed as bytes; SIGHUP and SIGTERM hang up, as when the
//     terminal is closed, SIGWINCH resizes, SIGTSTP and SIGCONT give back and take the terminal;
//   - the end of ctx terminates the program, and then kills it.
func (r *run) signals(ctx context.Context) {
	cancelled := ctx.Done()
	ending := &ending{run: r, timer: time.NewTimer(time.Hour)}
	ending.timer.Stop()
	defer ending.timer.Stop()
	for {
		select {
		case <-r.ended:
			return
		case sig := <-r.received:
			r.receive(sig.(syscall.Signal), ending)
		case <-cancelled:
			cancelled = nil
			switch sig, ok := interruption(context.Cause(ctx)); {
			case !ok:
				ending.terminate()
			case ending.why == 0: // it may have come before we listened; twice at once is once
				r.receive(sig, ending)
			}
		case <-ending.timer.C:
			ending.kill()
		}
	}
}

// wanted are the signals to catch. What this process was told to ignore (by nohup, or as a
// background job of a script) it goes on ignoring.
func (r *run) wanted() []os.Signal {
	// SIGPIPE is caught so that a write to a closed pipe fails instead.
	wanted := []os.Signal{unix.SIGPIPE}
	for _, sig := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT} {
		if !signal.Ignored(sig) {
			wanted = append(wanted, sig)
		}
	}
	if r.tty {
		wanted = append(wanted, unix.SIGWINCH, unix.SIGCONT)
	}
	if r.terminal.raw() {
		wanted = append(wanted, unix.SIGTSTP)
	}
	return wanted
}

func (r *run) receive(sig syscall.Signal, ending *ending) {
	switch {
	case sig == unix.SIGPIPE:
	case sig == unix.SIGWINCH:
		r.resize()
	case sig == unix.SIGTSTP:
		r.terminal.restore()
		unix.Kill(unix.Getpid(), unix.SIGSTOP)
	case sig == unix.SIGCONT:
		r.terminal.makeRaw()
		r.resize()
	case r.tty && (sig == unix.SIGHUP || sig == unix.SIGTERM):
		r.hangUp(sig)
	default:
		ending.interrupt(sig)
	}
}

func (r *run) resize() {
	columns, rows := r.terminal.size()
	r.tell("window-change", ssh.Marshal(struct{ Columns, Rows, Width, Height uint32 }{columns, rows, 0, 0}))
}

func (r *run) signal(sig syscall.Signal) {
	r.tell("signal", ssh.Marshal(struct{ Name string }{wire.SignalName(sig)}))
}

// message is a request that the guest is sent and does not answer.
type message struct {
	name    string
	payload []byte
}

// maxToTell is how many messages may wait for a guest to take the one before.
const maxToTell = 64

// tell has the guest told something. That it is told is not waited for: one that takes nothing any
// more must not keep us from giving it up.
func (r *run) tell(name string, payload []byte) {
	select {
	case r.toTell <- message{name, payload}:
	default:
	}
}

// telling tells the guest one thing after the other, until the channel is closed.
func (r *run) telling() {
	for {
		select {
		case m := <-r.toTell:
			r.channel.SendRequest(m.name, false, m.payload)
		case <-r.ended:
			return
		}
	}
}

// ending is how far the end of a program has been asked for.
type ending struct {
	run   *run
	why   syscall.Signal // the first signal
	since time.Time      // when it came
	timer *time.Timer    // until it is killed
}

// interrupt passes the first signal on. The program may take its time over a key of the user's.
func (e *ending) interrupt(sig syscall.Signal) {
	if e.why == 0 {
		e.why, e.since = sig, time.Now()
		e.run.signal(sig)
		if sig == unix.SIGTERM || sig == unix.SIGHUP {
			e.timer.Reset(deadline.End)
		}
		return
	}
	if time.Since(e.since) > impatience {
		e.kill()
	}
}

func (e *ending) terminate() {
	if e.why == 0 {
		e.why, e.since = unix.SIGTERM, time.Now()
	}
	e.run.signal(unix.SIGTERM)
	e.timer.Reset(deadline.End)
}

func (e *ending) kill() {
	e.run.signal(unix.SIGKILL)
	e.run.giveUp(e.why)
}
