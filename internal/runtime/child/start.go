package child

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/control"
	"forage/internal/deadline"
	"forage/internal/limits"
	"forage/internal/netns"
	"forage/internal/runtime"
)

// Start starts the guest and has it build the sandbox.
func (r *Runtime) Start(ctx context.Context, req runtime.Request) (_ runtime.Instance, err error) {
	defer closeFiles(req.SSH, req.Log)
	if err := r.Supports(req.Spec); err != nil {
		return nil, err
	}
	ids, err := identify(req.Spec.Identity)
	if err != nil {
		return nil, err
	}
	if _, err := ids.findGroups(); err != nil {
		return nil, err
	}
	if r.config.Container != nil {
		if err := ids.findZero(); err != nil {
			return nil, err
		}
	}
	// While the guest comes to life, what it will show is looked at.
	p := &plan{ids: ids, req: req, place: r.config.Place}
	defer p.close()
	planned := make(chan error, 1)
	go func() { planned <- p.open(r.program()) }()
	w, err := r.waiting(ctx, req.Spec.Identity)
	err = errors.Join(<-planned, err)
	var group limits.Group
	if err == nil {
		group, err = newCgroup(req.Spec)
	}
	if err != nil {
		w.end()
		return nil, err
	}
	i := newInstance(r.config.Name, w.process, w.link, group, req)
	if err := i.boot(ctx, r, w, p); err != nil {
		return nil, errors.Join(err, i.abandon())
	}
	return i, nil
}

// waiting is a guest that waits to be told what to build.
type waiting struct {
	process *process
	link
	stage *control.Conn // to what builds for a Container, else nil
	err   error         // why there is none
}

// end ends a guest that came to nothing.
func (w waiting) end() {
	if w.process != nil {
		w.process.kill()
		<-w.process.done
		w.link.close()
		if w.stage != nil {
			w.stage.Close()
		}
	}
}

// Early is a guest that was begun before it is known what it will show: Start is quicker with it.
type Early struct {
	guest chan waiting // closed once it was taken
}

// Begin begins a guest. It takes a while until it can be told something. If it was not told until
// ctx ends, it ends too.
func (r *Runtime) Begin(ctx context.Context, who forage.Identity) *Early {
	e := &Early{make(chan waiting, 1)}
	go func() { e.guest <- r.launch(who) }()
	context.AfterFunc(ctx, func() {
		if w, left := <-e.guest; left {
			close(e.guest)
			w.end()
		}
	})
	return e
}

// Take has the next Start use a guest that was begun by a runtime of the same kind.
func (r *Runtime) Take(e *Early) { r.early = e }

// Prepare begins a guest for the next Start, unless there is one.
func (r *Runtime) Prepare(ctx context.Context, who forage.Identity) {
	if r.early == nil {
		r.early = r.Begin(ctx, who)
	}
}

// waiting returns the guest that was begun, or a new one.
func (r *Runtime) waiting(ctx context.Context, who forage.Identity) (waiting, error) {
	if r.early == nil {
		w := r.launch(who)
		return w, w.err
	}
	early := r.early
	r.early = nil
	w, left := <-early.guest
	if !left {
		return w, context.Cause(ctx)
	}
	close(early.guest)
	return w, w.err
}

func (r *Runtime) launch(who forage.Identity) (w waiting) {
	link, guest, err := r.newLink()
	if err != nil {
		return waiting{err: err}
	}
	defer guest.Close() // so that the guest's end is seen as the end
	stage, inner, err := r.newStage()
	if err == nil {
		w = waiting{link: link, stage: stage}
		defer closeFiles(inner)
		w.process, err = r.spawn(who, guest, inner)
	}
	if err != nil {
		link.close()
		return waiting{err: diagnose(fmt.Errorf("starting the guest: %w", err))}
	}
	return w
}

// boot sends the guest all it needs and waits for its listening sockets.
func (i *instance) boot(ctx context.Context, r *Runtime, w waiting, p *plan) error {
	dropGroups, err := i.settle(ctx, p.ids)
	if err != nil { // If the guest had ended by itself before, that is the reason, and the error.
		i.process.kill()
		<-i.process.done
		if !i.process.status.Signaled() {
			return i.endedEarly(ctx, io.EOF)
		}
		return err
	}
	body, files, err := p.boot()
	if err != nil {
		return err
	}
	body.DropGroups = dropGroups
	body.Seal, body.OwnKernel = w.stage != nil && !r.config.Stream, w.stage != nil && r.config.Stream
	// Before the end of ctx is listened for, whose deadline this would take the place of.
	i.control.SetDeadline(time.Now().Add(deadline.Progress))
	stop := context.AfterFunc(ctx, func() { i.control.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := r.order(ctx, w, p.req.Spec, body, files); err != nil {
		return i.endedEarly(ctx, err)
	}
	if w.stage != nil {
		i.maker = r.maker()
	}
	if err := i.serve(ctx, p.req); err != nil {
		return i.endedEarly(ctx, err)
	}
	if i.session != nil {
		files = nil
	}
	if err := i.control.Send(control.Frame{Kind: control.Boot, Blob: body.encode()}, files...); err != nil {
		return i.endedEarly(ctx, err)
	}
	if err := i.receiveListeners(ctx); err != nil {
		return err
	}
	if !stop() {
		return context.Cause(ctx)
	}
	return i.control.SetDeadline(time.Time{})
}

// settle puts the guest on record, into its control group and gives it its ids.
// It says whether the guest has supplementary groups to drop.
func (i *instance) settle(ctx context.Context, ids idMaps) (dropGroups bool, err error) {
	// On record before anything else of it is made.
	if err := saveState(i.dir, state{Runtime: i.runtime, PID: i.process.pid, Cgroup: i.group.Ref()}); err != nil {
		return false, err
	}
	if err := i.group.Add(i.process.pid); err != nil {
		return false, err
	}
	if i.process.helper || i.process.client {
		return false, nil // it gets its ids there
	}
	dropGroups, err = ids.write(ctx, i.process.pid)
	return dropGroups, diagnose(err)
}

// receiveListeners takes over the sandbox's listening sockets.
func (i *instance) receiveListeners(ctx context.Context) error {
	frame, files, err := i.control.Receive()
	if err != nil {
		return i.endedEarly(ctx, err)
	}
	switch frame.Kind {
	case control.Listeners:
		var report netns.Report
		if err := frame.Decode(&report); err != nil {
			closeFiles(files...)
			return err
		}
		if i.session != nil {
			i.egress = netns.Listeners{Forwarded: []net.Listener{i.session}}
			return nil
		}
		i.egress, err = netns.FromFiles(report, files)
		return err
	case control.Failed:
		closeFiles(files...)
		return failed(frame)
	default:
		closeFiles(files...)
		return fmt.Errorf("the guest sent %q first", frame.Kind)
	}
}

// failed is what a guest says of its failure.
func failed(frame control.Frame) error {
	var failure control.Failure
	if err := frame.Decode(&failure); err != nil {
		return err
	}
	return explain(forage.WithHint(forage.Errorf(forage.ErrStart, "%s: %s", failure.Step, failure.Error), failure.Hint))
}

// endedEarly says why the channel to a guest that is starting broke.
func (i *instance) endedEarly(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, forage.ErrStart) || errors.Is(err, forage.ErrUnsupported) {
		return err // what failed inside
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return forage.Errorf(forage.ErrStart, "the guest was not ready within %v", deadline.Progress)
	}
	if i.session != nil || errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		i.process.kill()
		<-i.process.done
		ended := i.process.err()
		if i.process.status.Signaled() { // by us, perhaps
			ended = errors.Join(ended, err)
		}
		if i.maker != "" {
			return forage.WithHint(forage.Errorf(forage.ErrStart, "starting a container with %s: %w", i.maker, cmp.Or(ended, errors.New("it ended"))),
				"see whether it is an OCI command line that works here: "+i.maker+" --version")
		}
		if ended != nil {
			return forage.Errorf(forage.ErrStart, "%w", ended)
		}
	}
	return forage.Errorf(forage.ErrStart, "speaking to the guest: %w", err)
}

func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
