package main

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
	xterm "golang.org/x/term"
)

// patience is how many signals it takes until the program ends without
// cleaning up. The ones before are for the command inside: the first is passed
// on, the second kills it, the third gives it up. What is left behind, gc finds.
const patience = 4

// signalError says which signal ended the work.
type signalError struct{ signal unix.Signal }

func (e signalError) Error() string { return "interrupted by " + unix.SignalName(e.signal) }

// Signal makes this a guestclient.Interruption: what the command inside does
// about the signal is the command's business.
func (e signalError) Signal() os.Signal { return e.signal }

// exitCode is what a shell reports for a process that the signal killed.
func (e signalError) exitCode() int { return 128 + int(e.signal) }

// withSignals returns a context that SIGINT, SIGTERM, SIGHUP and SIGQUIT cancel, with a signalError
// as its cause, so that what is under way is undone in order. SIGPIPE is left alone: nothing is
// written to stdout while there is something to undo, but by a command inside, over which
// guestclient watches.
func withSignals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, patience)
	for _, sig := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT} {
		if !signal.Ignored(sig) { // by nohup, or as a background job of a script
			signal.Notify(signals, sig)
		}
	}
	go hangUp()
	go func() {
		count := 0
		for received := range signals {
			reason := signalError{received.(unix.Signal)}
			cancel(reason)
			if count++; count == patience {
				os.Exit(reason.exitCode())
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel(nil)
	}
}

// hangUp sends SIGHUP when a terminal that we were given goes away. The kernel does so for the
// session of that terminal alone; under su, whose command has a session of its own, it is not ours.
func hangUp() {
	var terminals []unix.PollFd
	for fd := range 3 {
		if xterm.IsTerminal(fd) {
			terminals = append(terminals, unix.PollFd{Fd: int32(fd)}) // POLLHUP is always reported
		}
	}
	for len(terminals) > 0 {
		n, err := unix.Poll(terminals, -1)
		if err == nil && n > 0 {
			unix.Kill(unix.Getpid(), unix.SIGHUP)
			return
		}
		if err != nil && err != unix.EINTR {
			return
		}
	}
}
