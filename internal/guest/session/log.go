package session

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Log carries the agent's output to the host: tmux writes it into a FIFO, which is read
// at once and written to the host's pipe for as long as that takes it. When the host is slow
// the output is dropped and counted: the agent never waits for its log, and tmux,
// which would keep what it can't write, doesn't grow.
type Log struct {
	host   *os.File
	hostFD int // host.Fd() would make it blocking again
	fifo   *os.File
	path   string
	copied chan struct{} // closed when Copy has returned

	mu   sync.Mutex
	lost int64
}

// NewLog makes the FIFO in the first of folders that can be written, and takes over host, the
// write end of a pipe.
func NewLog(host *os.File, folders ...string) (*Log, error) {
	l := &Log{host: host, hostFD: int(host.Fd()), copied: make(chan struct{})}
	if err := unix.SetNonblock(l.hostFD, true); err != nil {
		return nil, fmt.Errorf("the log's pipe: %w", err)
	}
	var errs []error
	for _, folder := range folders {
		err := l.open(folder)
		if err == nil {
			return l, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("making the log's FIFO: %w", errors.Join(errs...))
}

// open makes the FIFO, under a name that can't have been prepared. Opened for both directions it
// never ends (fifo(7)).
func (l *Log) open(folder string) error {
	l.path = filepath.Join(folder, "log-"+rand.Text())
	if err := unix.Mkfifo(l.path, 0o600); err != nil {
		return &os.PathError{Op: "mkfifo", Path: l.path, Err: err}
	}
	fd, err := unix.Open(l.path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: l.path, Err: err}
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFIFO {
		unix.Close(fd)
		return fmt.Errorf("%s is no FIFO", l.path)
	}
	l.fifo = os.NewFile(uintptr(fd), l.path)
	return nil
}

// Path is the FIFO, inside; no shell needs it quoted.
func (l *Log) Path() string { return l.path }

// Copy carries output until Close.
func (l *Log) Copy() {
	defer close(l.copied)
	buf := make([]byte, 32<<10)
	for {
		n, err := l.fifo.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			l.copyRest(buf)
			return
		}
		if err != nil {
			return
		}
		l.Write(buf[:n])
	}
}

// copyRest carries what is in the FIFO now, at most what one holds.
func (l *Log) copyRest(buf []byte) {
	l.fifo.SetReadDeadline(time.Time{})
	raw, err := l.fifo.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		for total := 0; total < 1<<20; {
			n, err := unix.Read(int(fd), buf)
			if err != nil || n <= 0 {
				return
			}
			l.Write(buf[:n])
			total += n
		}
	})
}

// Write passes p to the host or drops it; it never waits and never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost > 0 {
		note := fmt.Sprintf("\r\n[forage: %d bytes of output were not logged]\r\n", l.lost)
		if l.send([]byte(note)) < len(note) {
			l.lost += int64(len(p))
			return len(p), nil
		}
		l.lost = 0
	}
	l.lost += int64(len(p) - l.send(p))
	return len(p), nil
}

// send writes what the pipe has room for. Up to PIPE_BUF it is all or nothing (pipe(7)).
func (l *Log) send(p []byte) int {
	n, err := unix.Write(l.hostFD, p)
	if err != nil {
		return 0
	}
	return n
}

// Close ends Copy, once all that was printed is carried, and removes the FIFO.
func (l *Log) Close() error {
	l.fifo.SetReadDeadline(time.Now())
	<-l.copied
	return errors.Join(os.Remove(l.path), l.fifo.Close(), l.host.Close())
}
