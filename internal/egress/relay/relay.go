// Package relay moves bytes between two connections, both ways, until both are
// done. Between sockets the kernel moves them (splice(2), by io.Copy) through pipes, which
// are taken only while bytes are on their way: pipes are counted against the user,
// and a sandbox with thousands of idle connections must not use them up. It
// knows nothing of what it moves.
package relay

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"forage/internal/deadline"

	"golang.org/x/sys/unix"
)

// Counts are the bytes that a pair of connections has moved so far.
type Counts struct {
	In  Counter // upstream to client
	Out Counter // client to upstream
}

// Counter counts the bytes of one direction.
type Counter struct {
	atomic.Int64
	Bound Bound // nil: as many as there are
}

// Bound is how many bytes several connections may move together.
type Bound interface {
	Spend(n int64) error // is told of bytes that were moved; the error ends what moves them
	Left() int64
}

// Moved counts n bytes that were moved. The error is the bound's.
func (c *Counter) Moved(n int) error {
	c.Add(int64(n))
	if c.Bound == nil || n <= 0 {
		return nil
	}
	return c.Bound.Spend(int64(n))
}

// pieceSize is how many bytes are moved at one time. Pieces of 64 KiB were a fifth slower, and
// larger ones no faster.
const pieceSize = 256 << 10

// piece is how much may be moved at one time: less and less as the bound comes near.
func (c *Counter) piece() int {
	if c.Bound == nil {
		return pieceSize
	}
	return int(min(pieceSize, max(c.Bound.Left()/64, 16<<10)))
}

// Join moves bytes between client and upstream until both directions have
// ended, counting them, and closes both. A direction that ends is ended on the other
// side too; when one fails both are reset. The error says what failed.
func Join(client, upstream net.Conn, counts *Counts) error {
	j := &joint{client: client, upstream: upstream, counts: counts}
	defer j.stopGuard()
	var wg sync.WaitGroup
	var inErr error
	wg.Go(func() { inErr = j.move(client, upstream, &counts.In) })
	outErr := j.move(upstream, client, &counts.Out) // here: most clients speak first, and a goroutine starts late
	wg.Wait()
	if err := errors.Join(inErr, outErr); err != nil {
		return err
	}
	return errors.Join(client.Close(), upstream.Close())
}

type joint struct {
	client, upstream net.Conn
	counts           *Counts

	mu    sync.Mutex
	ended bool
	guard *time.Timer
}

// move copies one direction and passes on how it ended.
func (j *joint) move(dst, src net.Conn, count *Counter) error {
	err := copyAll(dst, src, count)
	if err == nil {
		err = closeWrite(dst)
		if errors.Is(err, syscall.ENOTCONN) { // the other direction has ended it already
			err = nil
		}
	}
	if err != nil {
		j.reset()
		return err
	}
	j.startGuard()
	return nil
}

func (j *joint) reset() {
	Reset(j.client)
	Reset(j.upstream)
}

// startGuard makes a direction that is left alone, and silent, end some time.
func (j *joint) startGuard() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.guard != nil || j.ended {
		return
	}
	seen := j.moved()
	j.guard = time.AfterFunc(deadline.Progress, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.ended {
			return
		}
		if now := j.moved(); now != seen {
			seen = now
			j.guard.Reset(deadline.Progress)
			return
		}
		j.reset()
	})
}

func (j *joint) stopGuard() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended = true
	if j.guard != nil {
		j.guard.Stop()
	}
}

func (j *joint) moved() int64 { return j.counts.In.Load() + j.counts.Out.Load() }

// Local makes a connection that does not leave the machine as fast as it can
// be: a congestion control that paces (BBR, where that is the host's) costs more than half of the
// throughput over loopback, and there is nothing to be polite to.
func Local(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { // Reno is always there, tcp(7); without it all works too
			unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
		})
	}
}

// Reset ends a connection at once, with a TCP reset where it is TCP.
func Reset(conn net.Conn) {
	if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		tcp.SetLinger(0) // fails only on a closed connection
	}
	conn.Close()
}

func closeWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return conn.Close()
}

// copyAll moves what src sends to dst until src ends (nil) or one of them fails.
func copyAll(dst, src net.Conn, count *Counter) error {
	var raw syscall.RawConn
	var err error
	switch c := src.(type) {
	case *net.TCPConn:
		raw, err = c.SyscallConn()
	case *net.UnixConn:
		raw, err = c.SyscallConn()
	default: // something is wrapped around it
		return copyPlain(dst, src, count)
	}
	if err != nil {
		return err
	}
	for {
		piece, err := read(raw)
		if err != nil || piece == nil {
			return err
		}
		n, err := dst.Write(*piece)
		more := len(*piece) == firstSize
		*piece = (*piece)[:firstSize]
		pieces.Put(piece)
		if err := errors.Join(err, count.Moved(n)); err != nil {
			return err
		}
		if more {
			if err := splice(dst, src, raw, count); err != nil {
				return err
			}
		}
	}
}

// firstSize is how many bytes are read and written. A socket that has more is spliced: that moves
// many bytes faster, and takes five calls of the kernel instead of two for a few.
const firstSize = 8 << 10

var pieces = sync.Pool{New: func() any { return new(make([]byte, firstSize)) }}

// read waits for bytes, and takes a piece for them only then; nil is the end.
func read(raw syscall.RawConn) (piece *[]byte, err error) {
	readErr := raw.Read(func(fd uintptr) bool {
		buf := pieces.Get().(*[]byte)
		n, _, readErr := unix.Recvfrom(int(fd), *buf, 0)
		if err = readErr; err != nil || n == 0 {
			pieces.Put(buf)
			return err != unix.EAGAIN
		}
		*buf = (*buf)[:n]
		piece = buf
		return true
	})
	return piece, errors.Join(readErr, err)
}

// splice moves bytes in the kernel for as long as they come in large pieces.
func splice(dst, src net.Conn, raw syscall.RawConn, count *Counter) error {
	for ready := firstSize; ready >= firstSize; {
		var err error
		if ready, err = await(raw); err != nil || ready == 0 {
			return err
		}
		n, err := io.CopyN(dst, src, int64(min(ready, count.piece())))
		if err := errors.Join(err, count.Moved(int(n))); err != nil {
			return err
		}
	}
	return nil
}

// await waits for bytes, and returns how many there are; 0 is the end.
func await(raw syscall.RawConn) (ready int, err error) {
	readErr := raw.Read(func(fd uintptr) bool {
		if ready, err = unix.IoctlGetInt(int(fd), unix.SIOCINQ); ready > 0 || err != nil {
			return true
		}
		_, _, err = unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK)
		if err == nil { // the end, or what has come just now
			ready, err = unix.IoctlGetInt(int(fd), unix.SIOCINQ)
		}
		return err != unix.EAGAIN
	})
	return ready, errors.Join(readErr, err)
}

// copyPlain copies through a buffer: what is not a socket.
func copyPlain(dst io.Writer, src io.Reader, count *Counter) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return err
			}
			if err := count.Moved(n); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
