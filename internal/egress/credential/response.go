package credential

import (
	"errors"
	"fmt"
	"io"
	"net/http"
)

// ErrEncoded says that an answer is in a form that can't be looked through for the
// secret, although another was asked for.
var ErrEncoded = errors.New("the answer is encoded in a way that can't be looked through")

// Applied is what became of one request.
type Applied struct {
	Secret string // name of the secret that was put in; "" is none
	// Foreign says which credential of the agent's own was taken out ("header authorization"); ""
	// is none.
	Foreign string

	needles *needles // nil: nothing to hide
}

// Response takes the secret out of res, as it streams: from its header, its body and its trailer.
// An error (ErrEncoded) means that res must not be passed on. What a server keeps in cookies goes
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
			return fmt.Errorf("%w: %s", ErrEncoded, name)
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

	room  []byte // what buf is a part of
	buf   []byte // read and not passed on
	ready int    // bytes of buf that may be passed on
	err   error  // of src
}

// room is how much is read at one time.
const room = 8 << 10

func (r *redactor) Read(p []byte) (int, error) {
	for r.ready == 0 && len(p) > 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.fill()
	}
	n := copy(p, r.buf[:r.ready])
	r.buf, r.ready = r.buf[n:], r.ready-n
	return n, nil
}

func (r *redactor) fill() {
	if r.room == nil {
		r.room = make([]byte, r.needles.max+room)
	}
	kept := copy(r.room, r.buf)
	n, err := r.src.Read(r.room[kept:])
	r.buf = r.room[:kept+n]
	if err == nil {
		r.ready = len(r.buf) - r.needles.redact(r.buf)
		return
	}
	r.err = err
	r.needles.end(r.buf)
	r.ready = len(r.buf)
	r.atEnd()
}

func (r *redactor) Close() error { return r.body.Close() }
