package credential

import (
	"io"
	"net/http"
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
