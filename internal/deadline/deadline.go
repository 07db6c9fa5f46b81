// Package deadline has the one rule for what does not answer. An answer has Answer, an end that was
// asked for has End, work and a quiet connection have Progress; then the process is killed through
// a pidfd, or the connection dropped. The error names what was waited for.
//
// What a user configures or a protocol sets is not here: limits of a policy, lifetimes of tokens,
// how long something gathers before it is looked at.
package deadline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The three times.
const (
	Answer   = 30 * time.Second // to answer a question, also on a busy machine; to be gone when killed
	End      = 5 * time.Second  // to end when asked to
	Progress = 10 * time.Minute // to do work that grows with its data, or to say something more
)

// Overdue is the context.DeadlineExceeded of something that did not answer.
type Overdue struct {
	What  string // as the subject of a sentence: "the guest"
	Limit time.Duration
}

func (o Overdue) Error() string { return fmt.Sprintf("%s has not answered within %v", o.What, o.Limit) }

// Is makes it a context.DeadlineExceeded.
func (Overdue) Is(target error) bool { return target == context.DeadlineExceeded }

// Within bounds ctx to limit. The cause of its end is then Overdue.
func Within(ctx context.Context, limit time.Duration, what string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, Overdue{what, limit})
}

// Do calls f, which can't be interrupted, and leaves it behind when ctx ends.
func Do(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Flock takes a lock of flock(2), which can't be interrupted: when ctx ends first, the wait is left
// behind and holds nothing once file is closed. how is unix.LOCK_EX or unix.LOCK_SH.
func Flock(ctx context.Context, file *os.File, how int) error {
	err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
	if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
		return err
	}
	own, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0) // the number of file's may be another's by then
	if err != nil {
		return err
	}
	return Do(ctx, func() error {
		defer unix.Close(own)
		for {
			if err := unix.Flock(own, how); !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	})
}

// Drop closes a connection when ctx ends, or when limit is over before the returned function is
// called.
func Drop(ctx context.Context, limit time.Duration, conn io.Closer) (done func()) {
	timer := time.AfterFunc(limit, func() { conn.Close() })
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	return func() { timer.Stop(); stop() }
}

// Kill kills the process pid and waits until it has ended. same is asked once a pidfd holds the
// process: its number may have been given to another. One that has ended already is no error.
func Kill(pid int, same func() (bool, error)) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(fd)
	if ours, err := same(); err != nil || !ours {
		return err
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("pidfd_send_signal", err)
	}
	ctx, cancel := Within(context.Background(), Answer, fmt.Sprintf("process %d, which was killed,", pid))
	defer cancel()
	return Ended(ctx, fd)
}

// Ended waits until the process of a pidfd has ended: pidfd_open(2), "polling". The deadline of ctx
// counts; its cancellation does not.
func Ended(ctx context.Context, pidfd int) error {
	timeout := -1
	for {
		if at, ok := ctx.Deadline(); ok {
			timeout = max(0, int(time.Until(at).Milliseconds()+1))
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, timeout)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return os.NewSyscallError("poll", err)
		case n > 0:
			return nil
		default:
			<-ctx.Done()
			return context.Cause(ctx)
		}
	}
}
