package boot

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/pipe"
)

// Once a program has ended, what it wrote is read to the end; a process that
// it left behind with the same pipe is given quietTime to write more, and
// straggleTime in all. OpenSSH would wait for ever.
const (
	quietTime    = 200 * time.Millisecond
	straggleTime = 2 * time.Second
)

// Pipe makes a pipe. One end is for a child, and blocks; the other is
// for this process, and can be given deadlines.
func Pipe(childReads bool) (ours, child *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	mine, theirs := fds[0], fds[1]
	if childReads {
		mine, theirs = theirs, mine
	}
	if err := unix.SetNonblock(mine, true); err != nil {
		unix.Close(mine)
		unix.Close(theirs)
		return nil, nil, err
	}
	return os.NewFile(uintptr(mine), "pipe"), os.NewFile(uintptr(theirs), "pipe"), nil
}

// CopyOutput copies what a program writes, until all that hold the other end of src
// have closed it, or until the program has ended (done) and all that it wrote
// itself is out. It returns the first error of dst; src is the caller's to close.
func CopyOutput(dst io.Writer, src *os.File, done <-chan struct{}) error {
	finished := make(chan struct{})
	defer close(finished)
	go func() {
		select {
		case <-done:
			src.SetReadDeadline(time.Now().Add(quietTime))
		case <-finished:
		}
	}()
	buf := make([]byte, pipe.Size)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return copyRest(dst, src, buf, quietTime)
		case err != nil: // EOF, or EIO from a terminal without processes
			return nil
		}
	}
}

// copyRest copies what is left behind an ended program: all that is in the
// pipe now, however slow dst is, and then what stragglers still write.
func copyRest(dst io.Writer, src *os.File, buf []byte, quiet time.Duration) error {
	end := time.Now().Add(straggleTime)
	owed := pending(src)
	for {
		src.SetReadDeadline(time.Now().Add(quiet))
		n, err := src.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) { // perhaps since it was this process that did nothing for so long
			if n = pipe.ReadNow(src, buf); n > 0 {
				err = nil
			}
		}
		if n > 0 {
			owed -= n
			if _, err := dst.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil || owed <= 0 && time.Now().After(end) {
			return nil
		}
	}
}

// pending is how many bytes can be read from file at once.
func pending(file *os.File) int {
	raw, err := file.SyscallConn()
	if err != nil {
		return 0
	}
	n := 0
	raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return n
}
