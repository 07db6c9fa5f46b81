package guestclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/crypto/ssh"

	"forage/internal/deadline"
	"forage/internal/guest/wire"
)

// ErrLost means that the connection ended before the program did: how the
// program did is not known.
var ErrLost = errors.New("the connection to the sandbox ended before the command did")

// Command is a program to run inside.
type Command struct {
	Argv []string // exactly what the program gets; Argv[0] is looked up on the PATH inside
	Dir  string   // "" is the sandbox's working directory
	Env  []string // "K=V", over the sandbox's own
	// TTY gives the program a terminal of its own. If Stdio.In is one too it is in raw
	// mode until Run returns.
	TTY bool
	// Term, Width and Height describe the terminal; zero fields are taken
	// from the environment and from Stdio's terminal.
	Term          string
	Width, Height int
	// Clipboard and Title let the program act on more than the terminal's screen: see
	// term.Controls.
	Clipboard, Title bool
}

// Stdio is where the program's streams go. With a terminal Err gets no more than why the program
// could not be started. A nil field is empty or discarded. In is best an *os.File: it is then read
// only while the program runs; of any other reader one Read may be under way when Run returns.
type Stdio struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Exit is how a program ended.
type Exit struct {
	Status int            // exit status
	Signal syscall.Signal // that ended it; 0 if it exited by itself
}

// Code is what a shell would return: the status, or 128 and the signal's number.
func (e Exit) Code() int {
	switch {
	case e.Signal > 0:
		return 128 + int(e.Signal)
	case e.Status < 0 || e.Status > 255: // a guest's lie must not become 0
		return 255
	}
	return e.Status
}

// Run runs a program to its end. A program that can't be started also ends: it writes why on its
// stderr and exits with 126 or 127.
//
// While it runs SIGINT, SIGTERM, SIGHUP and SIGQUIT of this process go to the program (see
// signals.go). When ctx ends the program is ended, and Run returns ctx's cause
// beside how it ended.
func (c *Client) Run(ctx context.Context, command Command, stdio Stdio) (Exit, error) {
	terminal := newTerminal(command, stdio)
	stdio.Out, stdio.Err = terminal.filtered(stdio.Out, command), terminal.filtered(stdio.Err, command)
	r := &run{
		client: c, terminal: terminal, stdio: stdio, tty: command.TTY,
		ended: make(chan struct{}), received: make(chan os.Signal, 8), toTell: make(chan message, maxToTell),
	}
	// Before the program starts, so that none is lost.
	signal.Notify(r.received, r.wanted()...)
	defer signal.Stop(r.received)
	payload, err := request(command, terminal).Marshal()
	if err != nil {
		return Exit{}, err
	}
	r.channel, err = c.open(ctx, r.follow, func(channel ssh.Channel) (bool, error) {
		return sendExec(channel, payload)
	})
	if err != nil {
		return Exit{}, fmt.Errorf("running %s: %w", command.Argv[0], err)
	}
	defer r.client.closeChannel(r.channel)
	switch err := terminal.makeRaw(); {
	case errors.Is(err, syscall.EIO): // the terminal is gone already
		return Exit{Signal: syscall.SIGHUP}, nil
	case err != nil:
		return Exit{}, err
	}
	defer terminal.restore()
	return r.relay(ctx)
}

func request(command Command, t *terminal) wire.Exec {
	exec := wire.Exec{Argv: command.Argv, Dir: command.Dir, Env: command.Env}
	if command.TTY {
		columns, rows := t.size()
		exec.Terminal = &wire.Terminal{Term: t.name, Columns: columns, Rows: rows}
	}
	return exec
}

// sendExec sends a program request, in parts if it is long.
func sendExec(channel ssh.Channel, payload []byte) (bool, error) {
	for len(payload) > wire.PartSize {
		if _, err := channel.SendRequest(wire.ExecPartRequest, false, payload[:wire.PartSize]); err != nil {
			return false, err
		}
		payload = payload[wire.PartSize:]
	}
	return channel.SendRequest(wire.ExecRequest, true, payload)
}

// run is a program under way.
type run struct {
	client   *Client
	channel  ssh.Channel
	terminal *terminal
	stdio    Stdio
	tty      bool

	received chan os.Signal // what this process is told
	toTell   chan message   // what the guest is to be told

	exit   *Exit         // as the guest said; read after ended
	ended  chan struct{} // closed when the channel is
	gaveUp atomic.Int32  // the signal that the program was given up for
	unsaid error         // why its output could not be written; read after relay has waited for outputs
}

// relay carries streams and signals until the program has ended and all its
// output is out.
func (r *run) relay(ctx context.Context) (Exit, error) {
	stopInput := relayInput(r.channel, r.stdio.In, func() { r.client.closeChannel(r.channel) })
	defer stopInput()
	var signalled sync.WaitGroup
	signalled.Go(func() { r.signals(ctx) })
	go r.telling()

	var outputs sync.WaitGroup
	outputs.Go(func() { r.copyOut(r.stdio.Out) })
	outputs.Go(func() {
		if copyStream(r.stdio.Err, r.channel.Stderr()) != nil {
			copyStream(nil, r.channel.Stderr())
		}
	})
	outputs.Wait()
	<-r.ended
	signalled.Wait()

	var err error
	if _, interrupted := interruption(context.Cause(ctx)); ctx.Err() != nil && !interrupted {
		err = context.Cause(ctx)
	}
	if err == nil && r.unsaid != nil && !errors.Is(r.unsaid, syscall.EPIPE) { // who closes a pipe has read enough
		err = fmt.Errorf("passing on the command's output: %w", r.unsaid)
	}
	switch {
	case r.exit != nil:
		return *r.exit, err
	case r.gaveUp.Load() != 0:
		return Exit{Signal: syscall.Signal(r.gaveUp.Load())}, err
	case err != nil:
		return Exit{}, err
	}
	return Exit{}, ErrLost
}

// follow reads what the guest says about the program, until the channel ends.
func (r *run) follow(requests <-chan *ssh.Request) {
	defer close(r.ended)
	for request := range requests {
		exit, ok := ParseExit(request)
		if ok && r.exit == nil {
			r.exit = &exit
		}
		if request.WantReply {
			request.Reply(ok, nil)
		}
	}
}

// ParseExit reads an exit-status or exit-signal request (RFC 4254, section 6.10).
func ParseExit(request *ssh.Request) (Exit, bool) {
	switch request.Type {
	case "exit-status":
		var status struct{ Code uint32 }
		if ssh.Unmarshal(request.Payload, &status) != nil {
			return Exit{}, false
		}
		return Exit{Status: int(min(status.Code, 1<<31-1))}, true
	case "exit-signal":
		var signal struct {
			Name              string
			Core              bool
			Message, Language string
		}
		if ssh.Unmarshal(request.Payload, &signal) != nil {
			return Exit{}, false
		}
		if sig := wire.ParseSignal(signal.Name); sig > 0 {
			return Exit{Signal: sig}, true
		}
		return Exit{Status: 255}, true
	}
	return Exit{}, false
}

// copyOut copies the program's output. When ours has no reader any more, neither has the program's:
// the program learns of that as it would here, by SIGPIPE. With a terminal gone the program is hung
// up on.
func (r *run) copyOut(out io.Writer) {
	err := copyStream(out, r.channel)
	if err == nil {
		return
	}
	if r.tty {
		r.hangUp(syscall.SIGHUP)
		return
	}
	r.unsaid = err
	r.tell(wire.EndOfWrite, nil)
	copyStream(nil, r.channel)
}

// hangUp gives the program up, as a terminal that goes away does.
func (r *run) hangUp(why syscall.Signal) {
	go r.channel.Close()
	r.giveUp(why)
}

// giveUp has the program end soon. A guest that doesn't close the channel, or takes nothing any
// more, loses the connection.
func (r *run) giveUp(why syscall.Signal) {
	if r.gaveUp.CompareAndSwap(0, int32(why)) {
		go func() {
			defer deadline.Drop(context.Background(), deadline.End, r.client.conn)()
			<-r.ended
		}()
	}
}

// copyStream copies until src ends. The error is that of dst.
func copyStream(dst io.Writer, src io.Reader) error {
	if dst == nil {
		dst = io.Discard
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}
