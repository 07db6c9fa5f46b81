package guestclient

import (
	"io"
	"os"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"forage/internal/deadline"
)

// relayInput copies in to the program's stdin until in ends, the program reads no more, or stop is
// called, which calls end to close the channel. After stop has returned nothing more is read from a
// file.
func relayInput(channel ssh.Channel, in io.Reader, end func()) (stop func()) {
	file, ok := in.(*os.File)
	switch {
	case in == nil || ok && file == nil:
		channel.CloseWrite()
		return func() {}
	case ok:
		if wake, waker, err := os.Pipe(); err == nil {
			relay := &fileRelay{channel: channel, end: end, file: file, fd: int(file.Fd()), wake: wake, waker: waker, done: make(chan struct{})}
			go relay.copy()
			return relay.stop
		}
	}
	go func() {
		io.Copy(struct{ io.Writer }{channel}, in)
		channel.CloseWrite()
	}()
	return func() {}
}

// fileRelay reads a file only when there is something to read and the program
// still runs, so that what is typed for the next program stays there.
type fileRelay struct {
	channel ssh.Channel
	end     func() // closes channel
	file    *os.File
	fd      int
	wake    *os.File // readable once stop is called
	waker   *os.File
	done    chan struct{}
}

// stop ends the relay. A write under way ends since the channel is closed by now; a read does not
// wait, unless another program that has the same input took first what there was, or a file's disk
// is gone. Then the read is left behind.
func (r *fileRelay) stop() {
	r.waker.Close()
	r.end()
	select {
	case <-r.done:
	case <-time.After(deadline.End):
	}
}

func (r *fileRelay) copy() {
	defer close(r.done)
	defer r.wake.Close()
	buf := make([]byte, 64<<10)
	for r.readable() {
		n, err := unix.Read(r.fd, buf)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
			continue
		case err != nil || n <= 0: // the end, or EIO: the terminal is gone
			r.channel.CloseWrite()
			return
		}
		if _, err := r.channel.Write(buf[:n]); err != nil {
			return
		}
	}
}

// readable waits for input and reports false once stop is called.
func (r *fileRelay) readable() bool {
	fds := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}, {Fd: int32(r.wake.Fd()), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || fds[1].Revents != 0:
			return false
		}
		return true
	}
}
