package sniff

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"
)

// Bounds of what a Gate holds back, in bytes.
const (
	maxHead    = 64 << 10
	maxTrailer = 8 << 10
	maxChunk   = 20 // of a line with the size of a chunk
)

// Gate lets the requests of one HTTP/1 connection pass to a reader that may
// be more lenient than it should: each head is held back until it is whole,
// well-formed and accepted by Check; bodies pass as they come. So whatever reads behind
// it sees each request begin and end where the Gate does.
//
// Read is for one goroutine at a time; Open may be called by any.
type Gate struct {
	src   io.Reader
	check func(Head) error

	buf   []byte // read from src, not yet given on
	ready int    // how much of buf may be given on
	state state
	left  int64 // bytes left of a body or chunk
	size  int   // of the trailer section so far
	err   error // what was refused: final
	share *Share
	fresh bool // nothing was read yet: perhaps there will be nothing
	open  atomic.Bool
}

type state uint8

const (
	inHead state = iota
	inBody
	inChunkSize
	inChunk
	inChunkEnd
	inTrailer
	inTunnel // after CONNECT: nothing more is for the HTTP reader
)

// NewGate reads from src, after prefix, which was read before. check is asked
// about each head; its error, if any, is what Read returns.
func NewGate(src io.Reader, prefix []byte, check func(Head) error) *Gate {
	return &Gate{src: src, buf: bytes.Clone(prefix), check: check, fresh: true}
}

// Bound makes what the Gate holds back count as a share of a budget. The caller closes the share.
func (g *Gate) Bound(s *Share) { g.share = s }

// Await reads until there is something that Read gives on, or refuses. Errors are of the source.
func (g *Gate) Await() error {
	for g.ready == 0 && g.err == nil {
		more, err := g.step()
		if err != nil {
			g.err = err
		} else if more {
			if err := g.fill(); err != nil && g.err == nil {
				return err
			}
		}
	}
	return nil
}

// Open lets everything pass from now on: the connection has left HTTP.
func (g *Gate) Open() { g.open.Store(true) }

// Rest returns, and forgets, what was read and not given on.
func (g *Gate) Rest() []byte {
	rest := g.buf
	g.drop()
	return rest
}

// Read gives on what may pass. Errors that are not of the source are *Error
// or check's.
func (g *Gate) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if g.ready == 0 && g.open.Load() {
			g.ready = len(g.buf)
		}
		switch {
		case g.ready > 0:
			n := copy(p, g.buf[:g.ready])
			if g.buf, g.ready = g.buf[n:], g.ready-n; len(g.buf) == 0 && n > free {
				g.drop()
			}
			return n, nil
		case g.err != nil:
			return 0, g.err
		case g.open.Load():
			return g.src.Read(p)
		case g.state == inBody || g.state == inChunk:
			if n, err := g.readBody(p); n > 0 || err != nil {
				return n, err
			}
			continue
		}
		more, err := g.step()
		if err != nil {
			g.err = err
			continue
		}
		if more {
			if err := g.fill(); err != nil {
				return 0, err
			}
		}
	}
	return 0, nil
}

// drop forgets buf.
func (g *Gate) drop() {
	g.buf, g.ready = nil, 0
	g.share.Hold(0) // less is never refused
}

// fill reads more into buf. An error of src is not final: it may be a deadline.
func (g *Gate) fill() error {
	if cap(g.buf)-len(g.buf) < 512 {
		size := max(2048, 2*len(g.buf))
		if g.fresh {
			size, g.fresh = 512, false
		}
		if err := g.share.Hold(size); err != nil {
			g.err = err
			return err
		}
		g.buf = append(make([]byte, 0, size), g.buf...)
	}
	n, err := g.src.Read(g.buf[len(g.buf):cap(g.buf)])
	g.buf = g.buf[:len(g.buf)+n]
	if n > 0 {
		return nil
	}
	if err == io.EOF && (len(g.buf) > 0 || g.state != inHead) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readBody passes on bytes of a body, without holding them.
func (g *Gate) readBody(p []byte) (int, error) {
	if g.left == 0 {
		if g.state == inChunk {
			g.state = inChunkEnd
		} else {
			g.state = inHead
		}
		return 0, nil
	}
	if len(g.buf) > 0 {
		g.ready = int(min(int64(len(g.buf)), g.left))
		g.left -= int64(g.ready)
		return 0, nil
	}
	n, err := g.src.Read(p[:min(int64(len(p)), g.left)])
	g.left -= int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// step takes the next piece out of buf. more says that buf has too little of it.
func (g *Gate) step() (more bool, err error) {
	switch g.state {
	case inHead:
		return g.stepHead()
	case inChunkSize:
		return g.stepChunkSize()
	case inChunkEnd:
		if len(g.buf) < 2 {
			return true, nil
		}
		if string(g.buf[:2]) != "\r\n" {
			return false, strict("a chunk that is longer than it says")
		}
		g.ready, g.state = 2, inChunkSize
		return false, nil
	case inTrailer:
		return g.stepTrailer()
	default:
		return false, io.EOF // a tunnel: what is there is for Rest
	}
}

func (g *Gate) stepHead() (more bool, err error) {
	end := bytes.Index(g.buf, []byte("\r\n\r\n")) + 4
	if end < 4 {
		return true, g.checkPartialHead()
	}
	if end > maxHead {
		return false, strict("too long a head")
	}
	head, body, err := parseHead(string(g.buf[:end]))
	if err != nil {
		return false, err
	}
	if err := g.check(head); err != nil {
		return false, err
	}
	g.ready = end
	switch {
	case head.Method == "CONNECT":
		g.state = inTunnel
	case body.chunked:
		g.state, g.size = inChunkSize, 0
	default:
		g.state, g.left = inBody, body.length
	}
	return false, nil
}

// checkPartialHead refuses early what can't become a head, so that another
// protocol is not waited for.
func (g *Gate) checkPartialHead() error {
	if len(g.buf) >= maxHead {
		return strict("too long a head")
	}
	line, _, whole := bytes.Cut(g.buf, []byte("\r\n"))
	if whole {
		_, _, err := parseRequestLine(string(line))
		return err
	}
	if bytes.IndexByte(line, '\n') >= 0 {
		return strict("a line that does not end in CR LF")
	}
	method, _, _ := bytes.Cut(line, []byte(" "))
	if len(method) > 0 && (len(method) > maxMethod || !httpguts.ValidHeaderFieldName(string(method))) {
		return refuse("not-http", "what the client sends is not an HTTP request")
	}
	return nil
}

func (g *Gate) stepChunkSize() (more bool, err error) {
	line, _, whole := bytes.Cut(g.buf, []byte("\r\n"))
	if !whole && len(line) <= maxChunk+len("\r") {
		return true, nil
	}
	n, parseErr := strconv.ParseInt(string(line), 16, 63)
	if len(line) > maxChunk || parseErr != nil || strings.Trim(string(line), "0123456789abcdefABCDEF") != "" {
		return false, strict("a malformed chunk size")
	}
	g.ready, g.left, g.state = len(line)+2, n, inChunk
	if n == 0 {
		g.state = inTrailer
	}
	return false, nil
}

func (g *Gate) stepTrailer() (more bool, err error) {
	line, _, whole := bytes.Cut(g.buf, []byte("\r\n"))
	if g.size+len(line) > maxTrailer {
		return false, strict("too long a trailer")
	}
	if !whole {
		return true, nil
	}
	g.ready, g.size = len(line)+2, g.size+len(line)+2
	if len(line) == 0 {
		g.state = inHead
		return false, nil
	}
	var fields requestFields
	if err := fields.add(string(line)); err != nil {
		return false, err
	}
	if fields.hosts+fields.proxyAuths+len(fields.lengths)+len(fields.codings) > 0 {
		return false, strict("a field in its trailer that belongs into its head")
	}
	return false, nil
}
