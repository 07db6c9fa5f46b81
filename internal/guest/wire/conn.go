package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"golang.org/x/crypto/ssh"
)

// The first byte of a connection to the guest says what follows. The host writes it: a client of
// the SSH port has no say.
const (
	SSH   = 's' // any client, which has to log in with a key
	Plain = 'p' // Forage's own, which reached a socket that only its user can
)

// Buffered makes reads from conn few: the SSH library reads a peer's version
// byte by byte, and every packet's length on its own.
func Buffered(conn net.Conn) net.Conn {
	return &buffered{Conn: conn, reader: bufio.NewReaderSize(conn, readSize)}
}

// readSize is the SSH library's own buffer: larger reads then pass this one by.
const readSize = 4 << 10

type buffered struct {
	net.Conn
	reader *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.reader.Read(p) }

// Conn carries SSH's channels (RFC 4254, section 5) without SSH's encryption and login. One end opens
// channels, the other accepts them. A frame is its kind, the channel's number, the length of
// what follows, and that. Either end may be hostile to the other: what it makes this end keep is
// bounded by window.
type Conn struct {
	conn   io.ReadWriteCloser
	accept bool                // this end accepts
	opened chan ssh.NewChannel // where it does
	ended  chan struct{}       // closed when nothing more comes
	closed chan struct{}       // closed by Close
	close  sync.Once

	opening, sending sync.Mutex

	mu       sync.Mutex
	channels map[uint32]*channel
	last     uint32 // the number of the channel that was opened last
}

// window is how much of a channel may be under way and unread, in bytes. maxFrame bounds what
// follows a frame's head.
const (
	window   = 1 << 20
	maxFrame = 256 << 10
	maxData  = 64 << 10
	headSize = 9
)

// maxWaiting bounds the requests of a channel that were not answered: more than an end that answers each
// has room for.
const maxWaiting = 64

const (
	frameOpen    = iota // Kind, Extra
	frameOpened         // nothing
	frameRefused        // Reason, Message; the channel is gone
	frameData
	frameStderr
	frameEnd     // no more data
	frameRead    // how many bytes were read, as uint32
	frameRequest // Want, Name, Payload
	frameReply   // 1 or 0
	frameClose
)

type openBody struct {
	Kind  string
	Extra []byte `ssh:"rest"`
}

type refusedBody struct {
	Reason  uint32
	Message string
}

type requestBody struct {
	Want    bool
	Name    string
	Payload []byte `ssh:"rest"`
}

var errProtocol = errors.New("the other side broke the protocol")

// NewConn makes the end of a connection that accepts channels, or the one that opens them. It owns the
// connection from then on.
func NewConn(conn io.ReadWriteCloser, accept bool) *Conn {
	c := &Conn{conn: conn, accept: accept, ended: make(chan struct{}), closed: make(chan struct{}), channels: make(map[uint32]*channel)}
	if accept {
		c.opened = make(chan ssh.NewChannel)
	}
	go c.receive()
	return c
}

// Opened are the channels that the other end opens, until the connection ends.
func (c *Conn) Opened() <-chan ssh.NewChannel { return c.opened }

// Close ends the connection and all of its channels.
func (c *Conn) Close() error {
	c.close.Do(func() { close(c.closed) })
	return c.conn.Close()
}

// Wait waits for the end of the connection.
func (c *Conn) Wait() { <-c.ended }

// OpenChannel opens a channel, and waits until the other end has taken or refused it.
func (c *Conn) OpenChannel(kind string, extra []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	c.opening.Lock() // numbers arrive in their order
	c.mu.Lock()
	c.last++
	ch := c.newChannelLocked(c.last, kind, extra)
	c.mu.Unlock()
	err := ch.send(frameOpen, ssh.Marshal(openBody{kind, extra}))
	c.opening.Unlock()
	if err != nil {
		return nil, nil, err
	}
	select {
	case <-ch.taken:
	case <-ch.gone:
	}
	if !ch.isTaken() { // it may have ended at once
		return nil, nil, ch.why
	}
	return ch, ch.requests, nil
}

func (c *Conn) send(kind byte, id uint32, body []byte) error {
	head := make([]byte, headSize, headSize+len(body))
	head[0] = kind
	binary.BigEndian.PutUint32(head[1:], id)
	binary.BigEndian.PutUint32(head[5:], uint32(len(body)))
	c.sending.Lock()
	defer c.sending.Unlock()
	_, err := c.conn.Write(append(head, body...))
	return err
}

// receive takes what comes, until the connection ends.
func (c *Conn) receive() {
	err := c.frames()
	c.Close()
	c.mu.Lock()
	for id, ch := range c.channels {
		ch.end(err)
		delete(c.channels, id)
	}
	c.mu.Unlock()
	close(c.ended)
	if c.accept {
		close(c.opened)
	}
}

func (c *Conn) frames() error {
	reader := bufio.NewReaderSize(c.conn, readSize)
	for {
		var head [headSize]byte
		if _, err := io.ReadFull(reader, head[:]); err != nil {
			return io.EOF
		}
		length := binary.BigEndian.Uint32(head[5:])
		if length > maxFrame {
			return errProtocol
		}
		body := make([]byte, length)
		if _, err := io.ReadFull(reader, body); err != nil {
			return io.EOF
		}
		if err := c.take(head[0], binary.BigEndian.Uint32(head[1:]), body); err != nil {
			return err
		}
	}
}

// take handles one frame. What is said of a channel that is gone crossed its end.
func (c *Conn) take(kind byte, id uint32, body []byte) error {
	c.mu.Lock()
	ch := c.channels[id]
	if kind == frameOpen && c.accept && id == c.last+1 {
		var open openBody
		if ssh.Unmarshal(body, &open) != nil {
			c.mu.Unlock()
			return errProtocol
		}
		c.last++
		ch = c.newChannelLocked(id, open.Kind, open.Extra)
		close(ch.taken)
		c.mu.Unlock()
		c.opened <- newChannel{ch}
		return nil
	}
	known := id <= c.last
	c.mu.Unlock()
	if ch == nil {
		if !known || kind == frameOpen {
			return errProtocol
		}
		return nil
	}
	if err := ch.take(kind, body); err != nil {
		return err
	}
	if kind == frameClose || kind == frameRefused {
		c.mu.Lock()
		delete(c.channels, id)
		c.mu.Unlock()
	}
	return nil
}

func (c *Conn) newChannelLocked(id uint32, kind string, extra []byte) *channel {
	ch := &channel{
		conn: c, id: id, kind: kind, extra: extra, room: window,
		taken: make(chan struct{}), gone: make(chan struct{}), replies: make(chan bool, 1), requests: make(chan *ssh.Request, 16),
	}
	ch.changed.L = &ch.mu
	c.channels[id] = ch
	return ch
}

// channel is an ssh.Channel. Its requests never want a reply: at the guest Reply gives it.
type channel struct {
	conn  *Conn
	id    uint32
	kind  string
	extra []byte

	taken    chan struct{} // closed when the guest has accepted it
	gone     chan struct{} // closed when the other side has closed it
	why      error         // read after gone
	replies  chan bool
	requests chan *ssh.Request
	asking   sync.Mutex // one request that wants a reply at a time

	mu      sync.Mutex
	changed sync.Cond
	room    int       // what may be sent
	in      [2][]byte // what has come and was not read: stdout (or stdin), stderr
	read    int       // what was read and the other side was not told
	wants   []bool    // of the requests that came, which want a reply
	ended   bool      // no more comes
	closed  bool      // Close was called
	over    bool      // the other side is gone
	half    bool      // CloseWrite was called
}

func (ch *channel) send(kind byte, body []byte) error { return ch.conn.send(kind, ch.id, body) }

func (ch *channel) take(kind byte, body []byte) error {
	switch kind {
	case frameOpened:
		if ch.isTaken() {
			return errProtocol
		}
		close(ch.taken)
	case frameRefused:
		var refused refusedBody
		if ssh.Unmarshal(body, &refused) != nil {
			return errProtocol
		}
		ch.end(&ssh.OpenChannelError{Reason: ssh.RejectionReason(refused.Reason), Message: refused.Message})
	case frameData, frameStderr:
		ch.mu.Lock()
		defer ch.mu.Unlock()
		if ch.closed {
			return nil
		}
		if len(ch.in[0])+len(ch.in[1])+len(body)+ch.read > window {
			return errProtocol
		}
		into := &ch.in[kind-frameData]
		*into = append(*into, body...)
		ch.changed.Broadcast()
	case frameEnd:
		ch.mu.Lock()
		defer ch.mu.Unlock()
		ch.ended = true
		ch.changed.Broadcast()
	case frameRead:
		if len(body) != 4 {
			return errProtocol
		}
		ch.mu.Lock()
		defer ch.mu.Unlock()
		if ch.room += int(binary.BigEndian.Uint32(body)); ch.room > window {
			return errProtocol
		}
		ch.changed.Broadcast()
	case frameRequest:
		var request requestBody
		if ssh.Unmarshal(body, &request) != nil || !ch.isTaken() {
			return errProtocol
		}
		if ch.conn.accept {
			ch.mu.Lock()
			ch.wants = append(ch.wants, request.Want)
			waiting := len(ch.wants)
			ch.mu.Unlock()
			if waiting > maxWaiting {
				return errProtocol
			}
		}
		select {
		case ch.requests <- &ssh.Request{Type: request.Name, Payload: request.Payload}:
		case <-ch.conn.closed:
			return io.EOF
		}
	case frameReply:
		select {
		case ch.replies <- len(body) == 1 && body[0] == 1:
		default:
			return errProtocol
		}
	case frameClose:
		ch.end(io.EOF)
		go ch.Close() // a full socket must not keep this end from reading
	default:
		return errProtocol
	}
	return nil
}

func (ch *channel) isTaken() bool {
	select {
	case <-ch.taken:
		return true
	default:
		return false
	}
}

// end ends the channel; what has come can still be read.
func (ch *channel) end(why error) {
	ch.mu.Lock()
	ch.ended, ch.over = true, true
	ch.changed.Broadcast()
	ch.mu.Unlock()
	ch.why = why
	close(ch.gone)
	close(ch.replies) // one that has come can still be taken
	close(ch.requests)
}

func (ch *channel) Read(p []byte) (int, error) { return ch.readFrom(0, p) }

func (ch *channel) readFrom(stream int, p []byte) (int, error) {
	ch.mu.Lock()
	in := &ch.in[stream]
	for len(*in) == 0 && !ch.ended {
		ch.changed.Wait()
	}
	n := copy(p, *in)
	if *in = (*in)[n:]; len(*in) == 0 {
		*in = nil
	}
	ch.read += n
	told := 0
	if ch.read >= window/4 && !ch.ended {
		told, ch.read = ch.read, 0
	}
	ch.mu.Unlock()
	if told > 0 {
		ch.send(frameRead, binary.BigEndian.AppendUint32(nil, uint32(told))) // that fails is seen at the next read
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (ch *channel) Write(p []byte) (int, error) { return ch.writeTo(frameData, p) }

func (ch *channel) writeTo(kind byte, p []byte) (written int, err error) {
	for len(p) > 0 {
		ch.mu.Lock()
		for ch.room == 0 && !ch.over && !ch.closed && !ch.half {
			ch.changed.Wait()
		}
		if ch.over || ch.closed || ch.half {
			ch.mu.Unlock()
			return written, io.EOF
		}
		n := min(len(p), ch.room, maxData)
		ch.room -= n
		ch.mu.Unlock()
		if err := ch.send(kind, p[:n]); err != nil {
			return written, err
		}
		written, p = written+n, p[n:]
	}
	return written, nil
}

func (ch *channel) CloseWrite() error {
	ch.mu.Lock()
	done := ch.half || ch.closed || ch.over
	ch.half = true
	ch.mu.Unlock()
	if done {
		return io.EOF
	}
	return ch.send(frameEnd, nil)
}

// Close says that this side is done, and reads nothing more: the other side may never be.
func (ch *channel) Close() error {
	ch.mu.Lock()
	done := ch.closed
	ch.closed, ch.ended = true, true
	if !ch.over {
		ch.in = [2][]byte{}
	}
	ch.changed.Broadcast()
	ch.mu.Unlock()
	if done {
		return io.EOF
	}
	return ch.send(frameClose, nil)
}

func (ch *channel) SendRequest(name string, wantReply bool, payload []byte) (bool, error) {
	if wantReply {
		ch.asking.Lock()
		defer ch.asking.Unlock()
	}
	if err := ch.send(frameRequest, ssh.Marshal(requestBody{wantReply, name, payload})); err != nil || !wantReply {
		return false, err
	}
	ok, answered := <-ch.replies
	if !answered {
		return false, io.EOF
	}
	return ok, nil
}

// Reply answers the oldest request that was not answered.
func (ch *channel) Reply(ok bool) error {
	ch.mu.Lock()
	want := len(ch.wants) > 0 && ch.wants[0]
	ch.wants = ch.wants[min(1, len(ch.wants)):]
	ch.mu.Unlock()
	if !want {
		return nil
	}
	answer := []byte{0}
	if ok {
		answer[0] = 1
	}
	return ch.send(frameReply, answer)
}

func (ch *channel) Stderr() io.ReadWriter { return stderr{ch} }

type stderr struct{ *channel }

func (s stderr) Read(p []byte) (int, error)  { return s.readFrom(1, p) }
func (s stderr) Write(p []byte) (int, error) { return s.writeTo(frameStderr, p) }

// newChannel is a channel that the guest has not taken yet.
type newChannel struct{ ch *channel }

func (n newChannel) ChannelType() string { return n.ch.kind }
func (n newChannel) ExtraData() []byte   { return n.ch.extra }

func (n newChannel) Accept() (ssh.Channel, <-chan *ssh.Request, error) {
	err := n.ch.send(frameOpened, nil)
	return n.ch, n.ch.requests, err
}

func (n newChannel) Reject(reason ssh.RejectionReason, message string) error {
	c := n.ch.conn
	c.mu.Lock()
	delete(c.channels, n.ch.id)
	c.mu.Unlock()
	return n.ch.send(frameRefused, ssh.Marshal(refusedBody{uint32(reason), message}))
}

// Join copies both ways between a channel and a connection, until both ends have said all, and closes
// both. gone is called when the other end closes the channel, or is gone.
func Join(channel ssh.Channel, requests <-chan *ssh.Request, conn net.Conn, gone func()) {
	defer conn.Close()
	defer channel.Close()
	go func() {
		ssh.DiscardRequests(requests)
		gone()
	}()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		io.Copy(channel, conn)
		channel.CloseWrite()
	}()
	io.Copy(conn, channel)
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
	<-sent
}

// Dial says which kind of connection this is.
func Dial(conn net.Conn, kind byte) error {
	if _, err := conn.Write([]byte{kind}); err != nil {
		conn.Close()
		return fmt.Errorf("reaching the sandbox: %w", err)
	}
	return nil
}
