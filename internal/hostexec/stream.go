package hostexec

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"time"
)

// stream passes a program's output on while it runs, and then the rest. It waits until the reader
// has finished: a pager may be open. A nil stream passes nothing on.
type stream struct {
	out         io.Writer
	ours, child *os.File
	ended       chan struct{} // closed when the program has ended
	done        chan error
}

// streamFor makes cmd write to out; nil leaves it as it is.
func streamFor(cmd *exec.Cmd, out io.Writer) (*stream, error) {
	if out == nil {
		return nil, nil
	}
	ours, child, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = child
	return &stream{out: out, ours: ours, child: child, ended: make(chan struct{}), done: make(chan error, 1)}, nil
}

// begin is for when the program has been started.
func (s *stream) begin() {
	if s == nil {
		return
	}
	s.child.Close()
	go func() {
		err := s.copy()
		s.ours.Close() // or the program would wait for a reader
		s.done <- err
	}()
}

func (s *stream) copy() error {
	buf := make([]byte, 32<<10)
	for {
		select {
		case <-s.ended: // out may have taken longer than what was left
			s.ours.SetReadDeadline(time.Now().Add(outputDelay))
		default:
		}
		n, err := s.ours.Read(buf)
		if n > 0 {
			if _, err := s.out.Write(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return exec.ErrWaitDelay
		case err != nil:
			return err
		}
	}
}

// end waits for the rest, when the program has ended. Once its caller waits no more, out is left to
// itself after a while.
func (s *stream) end(ctx context.Context) error {
	if s == nil {
		return nil
	}
	close(s.ended)
	s.ours.SetReadDeadline(time.Now().Add(outputDelay))
	select {
	case err := <-s.done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-s.done:
		return err
	case <-time.After(outputDelay):
		return exec.ErrWaitDelay
	}
}

func (s *stream) close() {
	if s != nil {
		s.child.Close()
		s.ours.Close()
	}
}
