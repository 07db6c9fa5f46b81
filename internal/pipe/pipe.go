// Package pipe reads what others write into pipes, for as long as they live. It starts and ends no
// process.
package pipe

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Size is how many bytes a pipe holds.
const Size = 64 << 10

// Copy copies what is written into the pipe of which src is our end, until its end or, once ended
// is closed, until all that is in the pipe then is copied. The pipe's end alone is not to be waited
// for: a writer can put the other end into a message that is never received (unix(7), SCM_RIGHTS),
// and it stays open when they are dead. src is the caller's to close.
func Copy(dst io.Writer, src *os.File, ended <-chan struct{}) error {
	finished := make(chan struct{})
	defer close(finished)
	go func() {
		select {
		case <-ended:
			src.SetReadDeadline(time.Unix(1, 0))
		case <-finished:
		}
	}()
	buf := make([]byte, Size)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return copyNow(dst, src, buf)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// copyNow copies what can be read at once, whatever the deadline.
func copyNow(dst io.Writer, src *os.File, buf []byte) error {
	for {
		n := ReadNow(src, buf)
		if n == 0 {
			return nil
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			return err
		}
	}
}

// ReadNow reads what can be read at once from a file that can be given deadlines, whatever the
// deadline; 0 is nothing.
func ReadNow(file *os.File, buf []byte) int {
	raw, err := file.SyscallConn()
	if err != nil {
		return 0
	}
	n := 0
	raw.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), buf) }) // which does not block: it has deadlines
	return max(n, 0)
}
