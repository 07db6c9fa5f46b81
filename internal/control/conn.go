package control

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxFiles is how many descriptors the kernel carries beside one message:
// SCM_MAX_FD, unix(7).
const maxFiles = 253

// Conn is one end of a control channel. Send and Receive may be used at the
// same time and from several goroutines.
type Conn struct {
	conn  net.Conn
	unix  *net.UnixConn // conn, where that can carry descriptors
	bound Bound

	send    sync.Mutex
	sendErr error // set once half a frame is out
	recv    sync.Mutex
	recvErr error // set once the stream can't be trusted to be at a frame's start
}

// Pair makes the two ends of a channel, both closed on exec.
func Pair() (host, guest *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a control channel: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control-guest"), nil
}

// New takes over file, one end of a connected unix stream socket, and closes it.
// bound is what this end accepts from the other.
func New(file *os.File, bound Bound) (*Conn, error) {
	defer file.Close()
	c, err := net.FileConn(file) // a duplicate, CLOEXEC and non-blocking
	if err != nil {
		return nil, fmt.Errorf("taking over a control channel: %w", err)
	}
	if _, ok := c.(*net.UnixConn); !ok {
		c.Close()
		return nil, errors.New("taking over a control channel: not a unix socket")
	}
	return NewConn(c, bound), nil
}

// NewConn makes a channel of a stream, which it owns from then on. Only a unix socket carries
// descriptors.
func NewConn(conn net.Conn, bound Bound) *Conn {
	bound.Files = min(bound.Files, maxFiles)
	sock, _ := conn.(*net.UnixConn)
	return &Conn{conn: conn, unix: sock, bound: bound}
}

// Close ends the channel; the other end reads io.EOF. It unblocks Send and Receive.
func (c *Conn) Close() error { return c.conn.Close() }

// PeerDied says that the peer is dead. Its end may still be open, in a message that is never
// received (unix(7), SCM_RIGHTS). Receive returns what has come, and then io.EOF; Send fails.
func (c *Conn) PeerDied() {
	half, ok := c.conn.(interface {
		CloseRead() error
		CloseWrite() error
	})
	if !ok {
		c.conn.Close()
		return
	}
	half.CloseRead()
	half.CloseWrite()
}

// SetDeadline bounds Send and Receive from now on, as net.Conn's; the zero time is no bound.
func (c *Conn) SetDeadline(t time.Time) error { return c.conn.SetDeadline(t) }

// SetReadDeadline bounds Receive. A deadline that passes within a frame
// ends the channel; between frames Receive may be called again.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.conn.SetReadDeadline(t) }

// SetWriteDeadline bounds Send.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.conn.SetWriteDeadline(t) }

// Send writes one frame with duplicates of files beside it; the caller keeps
// and closes its own. After an error that left half a frame out, every later
// Send fails too.
func (c *Conn) Send(f Frame, files ...*os.File) error {
	head, err := marshal(f)
	if err != nil {
		return err
	}
	rights, err := rightsOf(files)
	if err != nil {
		return fmt.Errorf("sending a %s frame: %w", f.Kind, err)
	}
	defer runtime.KeepAlive(files)

	c.send.Lock()
	defer c.send.Unlock()
	if c.sendErr != nil {
		return c.sendErr
	}
	n, err := c.write(head, rights, f.Blob)
	if err != nil {
		err = fmt.Errorf("sending a %s frame: %w", f.Kind, err)
		if n > 0 {
			c.sendErr = err
		}
	}
	return err
}

// write sends head, with rights on its first byte, and then blob.
func (c *Conn) write(head, rights, blob []byte) (int, error) {
	n := 0
	if len(rights) > 0 {
		if c.unix == nil {
			return 0, errors.New("this channel carries no descriptors")
		}
		var err error
		// The kernel may take less than all: only the first call carries the rights.
		if n, _, err = c.unix.WriteMsgUnix(head, rights, nil); err != nil {
			return n, err
		}
	}
	for _, rest := range [][]byte{head[n:], blob} {
		if len(rest) == 0 {
			continue // writing nothing would fail once the peer has read it all and gone
		}
		written, err := c.conn.Write(rest)
		n += written
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// rightsOf makes the SCM_RIGHTS message for files. It does not go through
// File.Fd, which makes a file blocking.
func rightsOf(files []*os.File) ([]byte, error) {
	if len(files) == 0 {
		return nil, nil
	}
	if len(files) > maxFiles {
		return nil, fmt.Errorf("%d descriptors, at most %d can be sent", len(files), maxFiles)
	}
	fds := make([]int, 0, len(files))
	for _, file := range files {
		raw, err := file.SyscallConn()
		if err != nil {
			return nil, err
		}
		if err := raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) }); err != nil {
			return nil, err
		}
	}
	return unix.UnixRights(fds...), nil
}

// Receive reads one frame and the descriptors beside it, which are closed on
// exec and the caller's to close. The peer's end of the channel is io.EOF; what
// breaks the protocol is ErrProtocol, and leaves the channel unusable.
func (c *Conn) Receive() (Frame, []*os.File, error) {
	c.recv.Lock()
	defer c.recv.Unlock()
	if c.recvErr != nil {
		return Frame{}, nil, c.recvErr
	}
	h, files, begun, err := c.readHeader()
	var f Frame
	if err == nil {
		f, err = c.readRest(h)
	}
	if err == nil && len(files) > 0 && !f.Kind.carriesFiles() {
		err = fmt.Errorf("%w: descriptors beside a %s frame", ErrProtocol, f.Kind)
	}
	if err == nil {
		return f, files, nil
	}
	closeAll(files)
	if errors.Is(err, io.EOF) && !begun {
		return Frame{}, nil, io.EOF
	}
	err = fmt.Errorf("receiving a frame: %w", err)
	if begun {
		c.recvErr = err
	}
	return Frame{}, nil, err
}

// readHeader reads the fixed part of a frame. begun says that at least one
// byte of it was taken. The files are the caller's, also beside an error.
func (c *Conn) readHeader() (h header, files []*os.File, begun bool, err error) {
	var b [headerSize]byte
	if c.unix == nil {
		n, err := io.ReadFull(c.conn, b[:])
		if err == nil {
			h, err = parseHeader(b, c.bound)
		}
		return h, nil, n > 0, err
	}
	control := make([]byte, unix.CmsgSpace(4*c.bound.Files))
	// ReadMsgUnix asks for MSG_CMSG_CLOEXEC. Descriptors that don't fit are
	// closed by the kernel, and so are those on any later byte, which is read
	// with no room for them.
	n, cn, flags, _, err := c.unix.ReadMsgUnix(b[:], control)
	files, rightsErr := filesOf(control[:cn])
	switch {
	case err != nil:
		return h, files, n > 0, err
	case n == 0:
		return h, files, false, io.EOF
	case rightsErr != nil:
		return h, files, true, fmt.Errorf("%w: %w", ErrProtocol, rightsErr)
	case flags&unix.MSG_CTRUNC != 0 || len(files) > c.bound.Files:
		return h, files, true, fmt.Errorf("%w: more than %d descriptors beside a frame, or no room for them", ErrProtocol, c.bound.Files)
	}
	if _, err := io.ReadFull(c.conn, b[n:]); err != nil {
		return h, files, true, cut(err)
	}
	h, err = parseHeader(b, c.bound)
	return h, files, true, err
}

// readRest reads what h announced.
func (c *Conn) readRest(h header) (Frame, error) {
	b := make([]byte, h.size())
	if _, err := io.ReadFull(c.conn, b); err != nil {
		return Frame{}, cut(err)
	}
	return parse(h, b)
}

// cut makes the end of the stream within a frame an error of its own.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// filesOf takes the descriptors out of control messages. All of them are
// returned, also beside an error, so that none is lost.
func filesOf(control []byte) ([]*os.File, error) {
	if len(control) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, m := range messages {
		if m.Header.Level != unix.SOL_SOCKET || m.Header.Type != unix.SCM_RIGHTS {
			continue
		}
		fds, rightsErr := unix.ParseUnixRights(&m)
		if rightsErr != nil {
			err = rightsErr
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
