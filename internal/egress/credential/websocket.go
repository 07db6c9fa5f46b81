package credential

import (
	"encoding/binary"
	"errors"
	"io"
)

// webSocket is a connection (RFC 6455) whose messages towards the client are without
// needles. What the client sends passes as it is.
//
// Frames are passed on as they come. A message may be split into frames anywhere, with
// control frames in between, so what a needle may begin with is held across them.
type webSocket struct {
	io.ReadWriteCloser
	needles *needles

	in    []byte // for reading
	out   []byte // read and not passed on yet
	ready int    // bytes of out that may be passed on
	held  []int  // where in out the bytes are that a needle may begin with
	err   error  // of the connection, or what is wrong with it

	head    []byte // of the frame that is being read, as far as it has come
	left    uint64 // bytes of its payload that are to come
	control bool   // it is a control frame
	final   bool   // it ends its message
	begun   bool   // a message has begun that has not ended
	pings   []byte // the payload of a control frame, as far as it has come
}

// pendingMax bounds what can come between two halves of a needle.
const pendingMax = 64 << 10

// controlMax is the length of the longest payload of a control frame (RFC 6455, 5.5).
const controlMax = 125

var errFrame = errors.New("the WebSocket frames from the server are not as they should be")

func (w *webSocket) Read(p []byte) (int, error) {
	for w.ready == 0 {
		if w.err != nil {
			return 0, w.err
		}
		if w.in == nil {
			w.in = make([]byte, 16<<10)
		}
		n, err := w.ReadWriteCloser.Read(w.in)
		if fault := w.feed(w.in[:n]); fault != nil {
			w.err, w.out = fault, w.out[:w.ready]
			continue
		}
		if err != nil {
			w.needles.overwrite(w.out[len(w.out)-len(w.pings):])
			w.err, w.ready = err, len(w.out)
		}
	}
	n := copy(p, w.out[:w.ready])
	w.out = append(w.out[:0], w.out[n:]...)
	w.ready -= n
	for i := range w.held {
		w.held[i] -= n
	}
	return n, nil
}

// feed takes bytes from the server.
func (w *webSocket) feed(bytes []byte) error {
	for len(bytes) > 0 {
		if w.left == 0 {
			w.head = append(w.head, bytes[0])
			w.out = append(w.out, bytes[0])
			bytes = bytes[1:]
			if err := w.begin(); err != nil {
				return err
			}
		} else {
			n := int(min(w.left, uint64(len(bytes))))
			w.left -= uint64(n)
			w.payload(bytes[:n])
			bytes = bytes[n:]
		}
		if len(w.head) == 0 && w.left == 0 {
			w.end()
		}
		if len(w.held) == 0 {
			w.ready = len(w.out)
		} else {
			w.ready = w.held[0]
		}
		if w.control && w.left > 0 {
			w.ready = min(w.ready, len(w.out)-len(w.pings))
		}
		if len(w.out)-w.ready > w.needles.max+pendingMax {
			return errFrame
		}
	}
	return nil
}

// begin reads the head of a frame (RFC 6455, 5.2) as soon as it is whole, and empties it then.
func (w *webSocket) begin() error {
	h := w.head
	if len(h) < 2 {
		return nil
	}
	size := 2
	switch h[1] {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if h[0]&0x70 != 0 || h[1]&0x80 != 0 { // an extension that was not agreed on; masked
		return errFrame
	}
	if len(h) < size {
		return nil
	}
	switch size {
	case 2:
		w.left = uint64(h[1])
	case 4:
		w.left = uint64(binary.BigEndian.Uint16(h[2:]))
	default:
		w.left = binary.BigEndian.Uint64(h[2:])
	}
	opcode := h[0] & 0x0f
	w.final, w.control = h[0]&0x80 != 0, opcode&8 != 0
	if w.control && (w.left > controlMax || !w.final) || !w.control && (opcode == 0) != w.begun || !w.control && opcode > 2 {
		return errFrame
	}
	if !w.control {
		w.begun = true
	}
	w.head = w.head[:0]
	return nil
}

// payload takes some of a frame's payload.
func (w *webSocket) payload(bytes []byte) {
	start := len(w.out)
	w.out = append(w.out, bytes...)
	if w.control {
		w.pings = append(w.pings, bytes...)
		return
	}
	if len(w.held) == 0 {
		keep, _ := w.needles.redact(w.out[start:])
		w.hold(len(w.out)-keep, len(w.out))
		return
	}
	text := make([]byte, 0, len(w.held)+len(bytes))
	for _, at := range w.held {
		text = append(text, w.out[at])
	}
	before := len(text)
	text = append(text, bytes...)
	keep, _ := w.needles.redact(text)
	done := len(text) - keep
	for i, at := range w.held {
		w.out[at] = text[i]
	}
	copy(w.out[start:], text[before:])
	if done < before {
		w.held = append(w.held[:0], w.held[done:]...)
		done = before
	} else {
		w.held = w.held[:0]
	}
	w.hold(start+done-before, len(w.out))
}

// hold keeps the bytes of out from start to end back.
func (w *webSocket) hold(start, end int) {
	for at := start; at < end; at++ {
		w.held = append(w.held, at)
	}
}

// end is the end of a frame.
func (w *webSocket) end() {
	switch {
	case w.control:
		w.needles.overwrite(w.out[len(w.out)-len(w.pings):])
		w.pings = w.pings[:0]
		w.control = false
	case w.final:
		w.held, w.begun, w.final = w.held[:0], false, false
	}
}

// CloseWrite ends what is sent to the server, where the connection can do that.
func (w *webSocket) CloseWrite() error {
	if half, ok := w.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
