package hostexec

import (
	"errors"
	"io"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// feed passes on what a program is to read while it runs. Once the program has ended, feed does not
// wait for the rest: what would be asked next depends on what the program has answered. A nil feed
// has nothing.
type feed struct {
	in          io.Reader
	ours, child *os.File
	done        chan error
}

// feedFor makes cmd read what in has; nil is nothing.
func feedFor(cmd *exec.Cmd, in io.Reader) (*feed, error) {
	if in == nil {
		return nil, nil
	}
	child, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdin = child
	return &feed{in: in, ours: ours, child: child, done: make(chan error, 1)}, nil
}

// begin is for when the program has been started.
func (f *feed) begin() {
	if f == nil {
		return
	}
	f.child.Close()
	go func() {
		_, err := io.Copy(f.ours, f.in)
		if errors.Is(err, unix.EPIPE) { // it reads no more, as it may
			err = nil
		}
		f.done <- err // before the program sees the end of what it reads
		f.ours.Close()
	}()
}

// end says, when the program has ended, why it did not get all of what it could have read.
func (f *feed) end() error {
	if f == nil {
		return nil
	}
	select {
	case err := <-f.done:
		return err
	default:
		return nil
	}
}

func (f *feed) close() {
	if f != nil {
		f.child.Close()
		f.ours.Close()
	}
}
