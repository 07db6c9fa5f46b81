package guest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"forage/internal/control"
	"forage/internal/deadline"
	"forage/internal/guest/session"
	"forage/internal/idle"
)

// maxWaiting is how many questions may wait for the one before.
const maxWaiting = 16

// obey does what comes over the control channel. It returns when everything
// inside has ended: after Stop, or at once when the channel ends.
func (g *guest) obey() error {
	questions := make(chan control.Frame, maxWaiting)
	defer close(questions)
	go g.answer(questions)
	stopped := make(chan struct{})
	received := make(chan control.Frame)
	lost := make(chan error, 1)
	go g.receive(received, lost)
	for stopping := false; ; {
		select {
		case frame := <-received:
			if frame.Kind == control.Stop {
				if !stopping {
					stopping = true
					go func() { defer close(stopped); g.end(grace(frame)) }()
				}
				continue
			}
			select {
			case questions <- frame:
			default:
				g.end(0)
				return errors.New("the host asks too much at once")
			}
		case <-stopped:
			return nil
		case err := <-lost:
			g.end(0)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
	}
}

// receive passes frames on until the channel ends.
func (g *guest) receive(received chan<- control.Frame, lost chan<- error) {
	for {
		frame, files, err := g.options.Conn.Receive()
		for _, file := range files {
			file.Close() // none is ever expected here
		}
		if err != nil {
			lost <- err
			return
		}
		received <- frame
	}
}

func grace(frame control.Frame) time.Duration {
	var body control.StopBody
	if frame.Decode(&body) != nil {
		return 0
	}
	return time.Duration(body.GraceMillis) * time.Millisecond
}

// answer handles one frame after the other.
func (g *guest) answer(questions <-chan control.Frame) {
	begun := false
	for frame := range questions {
		var reply control.Frame
		var err error
		switch {
		case frame.Kind == control.Go && !begun:
			begun = true
			reply, err = g.goAhead()
		case frame.Kind == control.Query:
			reply, err = g.query(frame)
		default:
			err = fmt.Errorf("%w: %s", errUnexpected, frame.Kind)
		}
		if err == nil {
			err = g.options.Conn.Send(reply)
		}
		if err != nil {
			g.options.Conn.Close() // which ends everything
			return
		}
		if reply.Kind == control.Ready {
			idle.Settle()
		}
	}
}

func (g *guest) goAhead() (control.Frame, error) {
	step, err := g.begin()
	if err == nil {
		return control.Frame{Kind: control.Ready}, nil
	}
	return control.Encode(control.Failed, failure(step, err))
}

func (g *guest) query(frame control.Frame) (control.Frame, error) {
	var query control.QueryBody
	if err := frame.Decode(&query); err != nil {
		return control.Frame{}, err
	}
	ctx, cancel := deadline.Within(g.ctx, deadline.End, "tmux") // a command of its own, which ends
	defer cancel()
	answer := control.AnswerBody{Session: session.None, Ports: slices.DeleteFunc(listening(), g.sshd.Listens)}
	var err error
	if g.session != nil && query.What != "ports" {
		if query.What == "window" {
			err = g.session.Start(ctx)
		}
		if err == nil {
			var state session.State
			state, err = g.session.State(ctx)
			answer.Session, answer.Ended, answer.Status = state.Session, state.Ended, state.Status
		}
	} else if query.What == "window" {
		err = errors.New("this sandbox has no session")
	}
	if err != nil {
		answer.Error = bounded(err.Error())
	}
	return control.Encode(control.Answer, answer)
}
