package native

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"forage/internal/frames"
	"forage/internal/runtime"
)

// instance is a sandbox that was started by this process.
type instance struct {
	process *process
	control *frames.Conn
	egress  runtime.Listeners
	group   *bound
	dir     string
	stopped atomic.Bool   // Stop was called
	done    chan struct{} // closed when everything is gone
	err     error
}

func newInstance(p *process, control *frames.Conn, group *bound, dir string) *instance {
	i := &instance{process: p, control: control, group: group, dir: dir, done: make(chan struct{})}
	go i.watch()
	return i
}

// watch waits for the end and removes what is left on the host.
func (i *instance) watch() {
	<-i.process.done
	i.control.PeerDied()
	i.err = errors.Join(i.group.remove(), removeState(i.dir))
	if !i.stopped.Load() {
		i.err = errors.Join(i.process.err(), i.err)
	}
	close(i.done)
}

// abandon takes back a start that failed.
func (i *instance) abandon() error {
	closeListeners(i.egress)
	i.process.kill()
	<-i.done
	i.control.Close()
	return removeState(i.dir)
}

func (i *instance) Egress() runtime.Listeners { return i.egress }
func (i *instance) Control() *frames.Conn     { return i.control }
func (i *instance) PID() int                  { return i.process.pid }
func (i *instance) Done() <-chan struct{}     { return i.done }

// Err says, after Done, why the sandbox ended.
func (i *instance) Err() error {
	select {
	case <-i.done:
		return i.err
	default:
		return nil
	}
}

// Stop asks the guest to end, and ends it after grace.
func (i *instance) Stop(ctx context.Context, grace time.Duration) error {
	i.stopped.Store(true)
	if grace > 0 {
		i.ask(ctx, grace)
	}
	i.process.kill()
	select {
	case <-i.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ask sends the guest a Stop and waits for its end, no longer than grace.
func (i *instance) ask(ctx context.Context, grace time.Duration) {
	frame, err := frames.Encode(frames.Stop, frames.StopBody{GraceMillis: grace.Milliseconds()})
	if err != nil {
		return
	}
	timer := time.NewTimer(grace + stopMargin)
	defer timer.Stop()
	sent := make(chan error, 1)
	go func() { sent <- i.control.Send(frame) }() // a guest that reads nothing must not hold us
	for {
		select {
		case err := <-sent:
			if err != nil {
				return
			}
			sent = nil
		case <-i.process.done:
			return
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// stopMargin is what a guest gets beyond the grace to reap what it has killed.
const stopMargin = 500 * time.Millisecond

func closeListeners(l runtime.Listeners) {
	for _, ln := range append(append(append(l.Transparent, l.Proxy...), l.Forwarded...), l.DNSStream...) {
		ln.Close()
	}
	for _, pc := range l.DNSPacket {
		pc.Close()
	}
}
