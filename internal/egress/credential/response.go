package credential

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
)

// EncodedError says that an answer is in a form that can't be looked through for the
// secret, although another was asked for.
type EncodedError struct{ coding string }

func (e *EncodedError) Error() string {
	coding := "in a way that is not known"
	if e.coding == "br" || e.coding == "zstd" { // nothing else that the server has said
		coding = "as " + e.coding
	}
	return "the server has compressed its answer " + coding + ", although it was asked not to: forage can't look for the secret in it"
}

// Applied is what became of one request.
type Applied struct {
	Secret string // name of the secret that was put in; "" is none
	// Foreign says which credential of the agent's own was taken out ("header authorization"); ""
	// is none.
	Foreign string

	needles *needles // nil: nothing to hide
}

// Response takes the secret out of res, as it streams: from its header, its body and its trailer.
// An error (*EncodedError) means that res must not be passed on. What a server keeps in cookies goes
// too: a session that the secret has opened is as good as the secret. After an answer that ends
// HTTP (101), what is said is not looked through.
func (a *Applied) Response(res *http.Response) error {
	if a == nil || a.needles == nil {
		return nil
	}
	delete(res.Header, "Set-Cookie")
	delete(res.Header, "Set-Cookie2")
	res.Status = a.needles.text(res.Status)
	for _, name := range [...]string{"Grpc-Encoding", "Connect-Content-Encoding"} {
		if coding := res.Header.Get(name); coding != "" && coding != "identity" {
			return &EncodedError{coding}
		}
	}
	if res.Body != nil && res.Body != http.NoBody && hasBody(res) {
		if err := decode(res); err != nil {
			return err
		}
		res.Body = &redactor{body: res.Body, src: res.Body, needles: a.needles, atEnd: func() { a.Header(res.Trailer) }}
	}
	a.Header(res.Header)
	a.Header(res.Trailer)
	return nil
}

// Header takes the secret out of h, in place. It is for the headers of informational answers (1xx),
// which Response doesn't see: httptrace.ClientTrace.Got1xxResponse has them.
func (a *Applied) Header(h http.Header) {
	if a == nil || a.needles == nil {
		return
	}
	for name, values := range h {
		if a.needles.inName(name) {
			delete(h, name)
			continue
		}
		for i, value := range values {
			values[i] = a.needles.text(value)
		}
	}
}

// hasBody says whether the body of res is not empty by definition (RFC 9110, 6.4.1).
func hasBody(res *http.Response) bool {
	return (res.Request == nil || res.Request.Method != http.MethodHead) &&
		res.StatusCode != http.StatusSwitchingProtocols && res.StatusCode != http.StatusNoContent && res.StatusCode != http.StatusNotModified
}

// redactor is a body without needles. It passes on what it reads at once, but for what
// may be the beginning of a needle.
type redactor struct {
	body    io.Closer
	src     io.Reader
	needles *needles
	atEnd   func()

	room   []byte // what the others are parts of
	ready  []byte // to be passed on
	kept   []byte // the end of what was read, which may be the beginning of a needle
	passed int    // bytes of kept that are passed on
	err    error  // of src
}

// room is how much is read at one time.
const room = 8 << 10

func (r *redactor) Read(p []byte) (int, error) {
	for len(r.ready) == 0 && len(p) > 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.fill()
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

func (r *redactor) fill() {
	if r.room == nil {
		r.room = make([]byte, r.needles.max+room)
	}
	start := copy(r.room, r.kept)
	n, err := r.src.Read(r.room[start:])
	buf := r.room[:start+n]
	if r.err = err; err != nil {
		r.needles.end(buf)
		r.ready = buf[r.passed:]
		r.atEnd()
		return
	}
	r.needles.overwrite(buf)
	keep, hold := r.needles.begun(buf)
	end := max(len(buf)-hold, r.passed)
	r.ready = buf[r.passed:end]
	r.kept = buf[len(buf)-keep:]
	r.passed = max(keep-(len(buf)-end), 0)
}

func (r *redactor) Close() error { return r.body.Close() }

// afterMax bounds what may follow a compressed body.
const afterMax = 64 << 10

// decode makes the body of res one that is not compressed, and res one that says so.
// It is decoded as it is read, so that one which grows without end costs no memory.
func decode(res *http.Response) error {
	var codings []string
	for _, line := range res.Header["Content-Encoding"] {
		for coding := range strings.SplitSeq(line, ",") {
			coding = strings.ToLower(strings.TrimSpace(coding))
			if coding != "" && coding != "identity" {
				codings = append(codings, coding)
			}
		}
	}
	if len(codings) == 0 {
		return nil
	}
	var open func(io.Reader) (io.Reader, error)
	switch coding := strings.Join(codings, ", "); coding {
	case "gzip", "x-gzip":
		open = func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	case "deflate":
		open = inflate
	default: // two, one on top of the other, too
		return &EncodedError{coding}
	}
	res.Body = &decoded{body: res.Body, open: open}
	for _, name := range [...]string{"Content-Encoding", "Content-Length", "Content-Md5", "Digest", "Content-Digest", "Accept-Ranges"} {
		delete(res.Header, name)
	}
	res.ContentLength = -1
	res.Uncompressed = true
	return nil
}

// inflate reads what "deflate" means: zlib's format, or what many servers send, without its frame.
func inflate(r io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(r)
	start, err := buffered.Peek(2)
	if err == nil && start[0]&0x0f == 8 && (uint(start[0])<<8|uint(start[1]))%31 == 0 { // RFC 1950, 2.2
		return zlib.NewReader(buffered)
	}
	return flate.NewReader(buffered), nil
}

// decoded opens its decoder when it is read first: that needs the beginning of the body.
type decoded struct {
	body    io.ReadCloser
	open    func(io.Reader) (io.Reader, error)
	decoder io.Reader
	err     error
}

func (d *decoded) Read(p []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	if d.decoder == nil {
		if d.decoder, d.err = d.open(d.body); d.err != nil {
			return 0, d.err
		}
	}
	n, err := d.decoder.Read(p)
	if err == io.EOF {
		err = d.rest()
	}
	d.err = err
	return n, err
}

// rest reads to the end of the body: only then its trailer is there.
func (d *decoded) rest() error {
	n, err := io.Copy(io.Discard, io.LimitReader(d.body, afterMax))
	switch {
	case err != nil:
		return err
	case n == afterMax:
		return errors.New("too much follows the compressed body")
	}
	return io.EOF
}

func (d *decoded) Close() error { return d.body.Close() }
