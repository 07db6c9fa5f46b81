package relay

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Pipes are the pipes, and buffers, that bytes go through. The zero value is ready.
type Pipes struct {
	mu      sync.Mutex
	idle    []*pipe
	taken   int // now in use
	buffers sync.Pool
}

// Bounds of Pipes. Their sizes count, in pages, against the user's
// pipe-user-pages-soft (16384 pages, pipe(7)), so there are not many. Pipes of 64 KiB were a fifth
// slower than these, and larger ones no faster.
const (
	pipeSize   = 256 << 10
	maxTaken   = 48 // more transfers at the same moment use buffers
	maxIdle    = 4
	bufferSize = 32 << 10
)

type pipe struct{ r, w int }

// take returns a pipe, or nil when there are enough of them in use, or none
// can be made.
func (p *Pipes) take() *pipe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= maxTaken {
		return nil
	}
	if n := len(p.idle); n > 0 {
		taken := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.taken++
		return taken
	}
	var fds [2]int
	if unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
		return nil
	}
	made := &pipe{r: fds[0], w: fds[1]}
	unix.FcntlInt(uintptr(made.w), unix.F_SETPIPE_SZ, pipeSize) // a smaller one works too
	p.taken++
	return made
}

// put gives a pipe back; one that still holds bytes is closed.
func (p *Pipes) put(used *pipe, empty bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if empty && len(p.idle) < maxIdle {
		p.idle = append(p.idle, used)
		return
	}
	p.closeLocked(used)
}

func (p *Pipes) closeLocked(used *pipe) {
	unix.Close(used.r)
	unix.Close(used.w)
}

// Close closes the pipes that are not in use.
func (p *Pipes) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, idle := range p.idle {
		p.closeLocked(idle)
	}
	p.idle = nil
}

// copy moves what src sends to dst until src ends (nil) or one of them fails.
func (p *Pipes) copy(dst, src net.Conn, count *Counter) error {
	from, okSrc := rawSocket(src)
	to, okDst := rawSocket(dst)
	if !okSrc || !okDst {
		return copyPlain(dst, src, count)
	}
	for {
		switch err := p.moveSome(dst, from, to, count); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// rawSocket is the raw form of a stream socket that nothing is wrapped around.
func rawSocket(conn net.Conn) (syscall.RawConn, bool) {
	var raw syscall.RawConn
	var err error
	switch c := conn.(type) {
	case *net.TCPConn:
		raw, err = c.SyscallConn()
	case *net.UnixConn:
		raw, err = c.SyscallConn()
	default:
		return nil, false
	}
	return raw, err == nil
}

// moveSome waits for bytes from one socket and writes them to the other. It
// takes a pipe, or a buffer, only once there are some.
func (p *Pipes) moveSome(dst net.Conn, from, to syscall.RawConn, count *Counter) error {
	var held *pipe
	var buf *[]byte
	var n int
	var err error
	readErr := from.Read(func(fd uintptr) bool {
		if held = p.take(); held != nil {
			n, err = splice(int(fd), held.w, count.piece())
			if n <= 0 {
				p.put(held, true)
				held = nil
			}
		} else {
			buf = p.buffer()
			if n, err = ignoringEINTR(func() (int, error) { return unix.Read(int(fd), *buf) }); n <= 0 {
				p.buffers.Put(buf)
			}
		}
		return err != unix.EAGAIN
	})
	switch {
	case readErr != nil:
		err = readErr
	case err != nil:
		err = os.NewSyscallError("splice", err)
	case n == 0:
		err = io.EOF
	}
	if err != nil {
		return err
	}
	if held == nil {
		written, err := dst.Write((*buf)[:n])
		p.buffers.Put(buf)
		return errors.Join(err, count.Moved(written))
	}
	left, err := drain(held, to, n, count)
	p.put(held, left == 0)
	return err
}

// drain empties n bytes of a pipe into a socket and returns how many are left. It counts as it
// goes: a receiver may be slow, and is not silent then.
func drain(held *pipe, to syscall.RawConn, n int, count *Counter) (left int, err error) {
	left = n
	var spent error
	writeErr := to.Write(func(fd uintptr) bool {
		for left > 0 && err == nil && spent == nil {
			var moved int
			if moved, err = splice(held.r, int(fd), left); err == nil && moved == 0 {
				err = unix.EPIPE
			}
			left -= moved
			spent = count.Moved(moved)
		}
		if err == unix.EAGAIN { // the receiver is slow
			err = nil
			return false
		}
		return true
	})
	if writeErr != nil {
		return left, writeErr
	}
	return left, errors.Join(os.NewSyscallError("splice", err), spent)
}

func (p *Pipes) buffer() *[]byte {
	if b, ok := p.buffers.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, bufferSize)
	return &b
}

func splice(from, to, n int) (int, error) {
	return ignoringEINTR(func() (int, error) {
		n, err := unix.Splice(from, nil, to, nil, n, unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		return int(n), err
	})
}

func ignoringEINTR(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return max(n, 0), err
		}
	}
}
