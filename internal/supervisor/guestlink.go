package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"forage"
	"forage/internal/control"
)

// guestLink speaks to the guest on the instance's control channel. What comes
// back is untrusted: an unexpected frame ends the link.
type guestLink struct {
	conn     *control.Conn
	expected atomic.Bool // an answer is due
	answers  chan control.Frame
	ended    chan struct{} // closed when the guest's end is
	err      error         // why; read after ended

	asking chan struct{} // one question at a time: who asks has put something in
	owed   bool          // the answer to an abandoned question is still to come
}

func newGuestLink(conn *control.Conn) *guestLink {
	l := &guestLink{conn: conn, answers: make(chan control.Frame, 1), ended: make(chan struct{}), asking: make(chan struct{}, 1)}
	go l.receive()
	return l
}

func (l *guestLink) receive() {
	defer close(l.ended)
	for {
		frame, files, err := l.conn.Receive()
		if err != nil {
			l.err = err
			return
		}
		if len(files) > 0 { // none is ever due here
			for _, file := range files {
				file.Close()
			}
			l.err = errors.New("the guest sent descriptors")
			return
		}
		if !l.expected.CompareAndSwap(true, false) {
			l.err = fmt.Errorf("the guest sent %q unasked", frame.Kind)
			return
		}
		l.answers <- frame
	}
}

// begin tells the guest that egress serves and waits until it is usable.
func (l *guestLink) begin(ctx context.Context) error {
	frame, err := l.ask(ctx, control.Frame{Kind: control.Go})
	if err != nil {
		return err
	}
	switch frame.Kind {
	case control.Ready:
		return nil
	case control.Failed:
		var failed control.Failure
		if err := frame.Decode(&failed); err != nil {
			return err
		}
		return forage.WithHint(fmt.Errorf("%s: %s", failed.Step, failed.Error), failed.Hint)
	default:
		return fmt.Errorf("the guest answered %q instead of being ready", frame.Kind)
	}
}

// query asks for the session's state or for the agent's window to be started again.
func (l *guestLink) query(ctx context.Context, what string) (control.AnswerBody, error) {
	question, err := control.Encode(control.Query, control.QueryBody{What: what})
	if err != nil {
		return control.AnswerBody{}, err
	}
	frame, err := l.ask(ctx, question)
	if err != nil {
		return control.AnswerBody{}, err
	}
	var answer control.AnswerBody
	if err := frame.Decode(&answer); err != nil {
		return control.AnswerBody{}, err
	}
	if answer.Error != "" {
		return control.AnswerBody{}, errors.New(answer.Error)
	}
	return answer, nil
}

// ask sends a frame and waits for the one that answers it. The answer to a question that was given
// up may come late, and is not taken for another's: nothing more is asked before it is there.
func (l *guestLink) ask(ctx context.Context, frame control.Frame) (control.Frame, error) {
	select {
	case l.asking <- struct{}{}:
		defer func() { <-l.asking }()
	case <-ctx.Done():
		return control.Frame{}, fmt.Errorf("asking the guest: %w", context.Cause(ctx))
	}
	if l.owed {
		if _, err := l.answer(ctx); err != nil {
			return control.Frame{}, err
		}
	}
	l.expected.Store(true)
	if err := l.conn.Send(frame); err != nil {
		return control.Frame{}, fmt.Errorf("asking the guest: %w", err)
	}
	return l.answer(ctx)
}

// answer waits for the guest's next answer.
func (l *guestLink) answer(ctx context.Context) (control.Frame, error) {
	l.owed = true
	select {
	case answer := <-l.answers:
		l.owed = false
		return answer, nil
	case <-l.ended:
		return control.Frame{}, fmt.Errorf("the guest ended: %w", l.err)
	case <-ctx.Done():
		return control.Frame{}, fmt.Errorf("asking the guest: %w", context.Cause(ctx))
	}
}
