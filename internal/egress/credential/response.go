package credential

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// ErrEncoded says that an answer is in a form that can't be looked through for the
// secret, although another was asked for.
var ErrEncoded = errors.New("the answer is encoded in a way that can't be looked through")

// Applied is what became of one request.
type Applied struct {
	Secret string // name of the secret that was put in; "" is none
	// Foreign says which credential of the agent's own was taken out ("header authorization"); "" is none.
	Foreign string

	needles *needles // nil: nothing to hide
}

// Response takes the secret out of res, as it streams: from its header, its
// body and its trailer. An error (ErrEncoded) means that res must not be passed on. What a
// server keeps in cookies goes too: a session that the secret has opened is as good as the secret.
func (a *Applied) Response(res *http.Response) error {
	if a == nil || a.needles == nil {
		return nil
	}
	delete(res.Header, "Set-Cookie")
	delete(res.Header, "Set-Cookie2")
	res.Status = a.needles.text(res.Status)
	if res.StatusCode == http.StatusSwitchingProtocols {
		return a.upgraded(res)
	}
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

// upgraded looks through what comes back on a connection that is no longer HTTP.
func (a *Applied) upgraded(res *http.Response) error {
	conn, ok := res.Body.(io.ReadWriteCloser)
	switch {
	case !ok || !strings.EqualFold(res.Header.Get("Upgrade"), "websocket"):
		return errors.New("the server switched to a protocol that can't be looked through")
	case res.Header.Get("Sec-Websocket-Extensions") != "":
		return fmt.Errorf("%w: WebSocket extensions", ErrEncoded)
	}
	a.Header(res.Header)
	res.Body = &webSocket{ReadWriteCloser: conn, needles: a.needles}
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
		res.StatusCode != http.StatusNoContent && res.StatusCode != http.StatusNotModified
}

// redactor is a body without needles. It passes on what it reads at once, but for what
// may be the beginning of a needle.
type redactor struct {
	body    io.Closer
	src     io.Reader
	needles *needles
	atEnd   func()

	held  []byte // read, and perhaps the beginning of a needle
	free  int    // bytes at its start that have been passed on
	ready []byte // to be passed on
	buf   []byte // for readers with little room
	err   error  // of src
}

// room is how much is read at least at one time, beside what is held.
const room = 512

func (r *redactor) Read(p []byte) (int, error) {
	for {
		if len(r.ready) > 0 || len(p) == 0 {
			n := copy(p, r.ready)
			r.ready = r.ready[n:]
			return n, nil
		}
		if r.err != nil {
			return 0, r.err
		}
		buf, direct := p, len(p) >= len(r.held)+room
		if !direct {
			if len(r.buf) < r.needles.max+room {
				r.buf = make([]byte, r.needles.max+room)
			}
			buf = r.buf
		}
		done, empty := r.fill(buf)
		switch {
		case direct && done > 0:
			return done, nil
		case direct && empty && r.err == nil:
			return 0, nil
		case !direct:
			r.ready = buf[:done]
		}
	}
}

// fill reads into buf, and says how much of it may be passed on.
func (r *redactor) fill(buf []byte) (done int, empty bool) {
	kept := copy(buf, r.held)
	n, err := r.src.Read(buf[kept:])
	text := buf[:kept+n]
	keep, hold := 0, 0
	if err != nil {
		r.err = err
		r.needles.overwrite(text)
	} else {
		keep, hold = r.needles.redact(text)
	}
	start := len(text) - keep
	r.held = append(r.held[:0], text[start:]...)
	from, to := r.free, len(text)-hold
	r.free = max(keep-hold, from-start)
	if err != nil {
		r.atEnd()
	}
	if from >= to {
		return 0, n == 0
	}
	if from > 0 {
		copy(text, text[from:to])
	}
	return to - from, n == 0
}

func (r *redactor) Close() error { return r.body.Close() }
