package child

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"forage/internal/control"
	"forage/internal/limits"
	"forage/internal/netns"
	"forage/internal/runtime"
	"forage/internal/unixsock"
)

// instance is a sandbox that was started by this process.
type instance struct {
	runtime string // its name
	process *process
	link
	maker   string // the program that makes the container; "" is none
	ssh     string // the path of Request.SSH
	egress  netns.Listeners
	group   limits.Group
	dir     string
	stopped atomic.Bool   // Stop was called
	done    chan struct{} // closed when everything is gone
	err     error
}

func newInstance(name string, p *process, l link, group limits.Group, req runtime.Request) *instance {
	i := &instance{runtime: name, process: p, link: l, ssh: req.SSHPath, group: group, dir: req.Dir, done: make(chan struct{})}
	go i.watch()
	return i
}

// watch waits for the end and removes what is left on the host.
func (i *instance) watch() {
	<-i.process.done
	if i.session != nil {
		i.session.Close()
	} else {
		i.control.PeerDied()
	}
	i.err = errors.Join(i.process.left, i.group.Remove(), removeState(i.dir))
	if !i.stopped.Load() {
		i.err = errors.Join(i.process.err(), i.err)
	}
	close(i.done)
}

// abandon takes back a start that failed.
func (i *instance) abandon() error {
	i.egress.Close()
	i.process.kill()
	<-i.done
	i.link.close()
	return removeState(i.dir)
}

func (i *instance) Egress() netns.Listeners { return i.egress }
func (i *instance) Control() *control.Conn  { return i.control }

// Dial connects to the guest's SSH server.
func (i *instance) Dial(ctx context.Context) (net.Conn, error) {
	if i.session != nil {
		return i.session.Open(ctx)
	}
	return unixsock.Dial(ctx, i.ssh)
}

// PID is 0 where the process is only a client of an engine.
func (i *instance) PID() int {
	if i.process.client {
		return 0
	}
	return i.process.pid
}

func (i *instance) Done() <-chan struct{} { return i.done }

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
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	frame, err := control.Encode(control.Stop, control.StopBody{GraceMillis: grace.Milliseconds()})
	if err != nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { i.control.SetWriteDeadline(time.Unix(1, 0)) }) // a guest that reads nothing must not hold us
	defer stop()
	if i.control.Send(frame) != nil {
		return
	}
	select {
	case <-i.process.done:
	case <-ctx.Done():
	}
}
