package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"forage/internal/audit"
	"forage/internal/deadline"
	"forage/internal/egress/credential"
	"forage/internal/egress/meter"
	"forage/internal/egress/sniff"
	"forage/internal/policy"
)

// exchange is a request that is forwarded, and its answer.
type exchange struct {
	s      *session
	to     policy.Request
	host   policy.Request // what the Host field says
	scheme string         // towards the server
	permit *permit
	ctx    context.Context // of the request, from its arrival to its end
	event  audit.Event     // its lines in the audit log

	body     *countedBody
	sent     *freeBody // body, or what is made of it, as the server gets it
	writer   *countedWriter
	applied  *credential.Applied
	upgraded bool

	mu sync.Mutex // of what a language model took, in event
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange { return r.Context().Value(exchangeKey{}).(*exchange) }

// pass judges a request and forwards it.
func (h *httpSide) pass(w http.ResponseWriter, r *http.Request, j *exchange) {
	f := j.s.f
	j.event = requestEvent(r, j.to)
	select {
	case h.under <- struct{}{}:
		defer func() { <-h.under }()
	default:
		h.refuse(w, r, j.s, f.limited(j.event, &meter.Limited{Rule: "connection-limit", RetryAfter: time.Second,
			Reason: fmt.Sprintf("%d requests are under way", cap(h.under))}))
		return
	}
	share, err := h.holdHead(r)
	if err != nil {
		h.refuse(w, r, j.s, f.deny(j.event, policy.Decision{Rule: ruleHeads, Reason: err.Error()}))
		return
	}
	defer share.Close()
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), exchangeKey{}, j))
	defer cancel()
	defer context.AfterFunc(f.ctx, cancel)()
	j.ctx = ctx
	named := j.to
	if named.Host == "" {
		named = j.host // an address, of which a name is asked, or the address itself
	}
	j.permit, err = f.judgeRequest(asked(j.to, r), readings(h.e.router.Complete(asked(named, r)), r), j.event, j.bounds)
	defer j.permit.release()
	if err != nil {
		h.refuse(w, r, j.s, err)
		return
	}
	h.send(ctx, w, r, j)
}

// bounds judges what else there is to a request whose address, method and path are allowed: its
// port and its budget.
func (j *exchange) bounds() error {
	f := j.s.f
	if j.to.Port == tlsPort && j.scheme == "http" {
		return f.deny(j.event, policy.Decision{Rule: "not-tls", Reason: "a request in the clear to the port of TLS"})
	}
	if err := f.admit(j.to.Host); err != nil {
		return f.limited(j.event, err)
	}
	return nil
}

// send forwards a request that may go, and records how it ends.
func (h *httpSide) send(ctx context.Context, w http.ResponseWriter, r *http.Request, j *exchange) {
	j.permit.count()
	if !j.s.http2 {
		http.NewResponseController(w).EnableFullDuplex() // a server may answer before it has read everything
	}
	counted := &countedWriter{ResponseWriter: w, count: &j.permit.counts.In}
	j.writer = counted
	whole := false
	defer func() { // also when the handler is aborted
		if !whole && counted.failure == nil {
			counted.failure = cmp.Or(j.s.failed(nil), errCut)
		}
		j.close(counted.status, counted.failure)
	}()
	if r.Body != nil && r.Body != http.NoBody {
		over, err := h.longBody(ctx, r)
		if err != nil {
			whole = true
			h.refuse(counted, r, j.s, j.s.f.limited(j.event, err))
			return
		}
		defer over()
		j.body = &countedBody{ReadCloser: r.Body, count: &j.permit.counts.Out, in: r, over: over} // r itself: the server gives it the trailers
		r.Body = j.body
	}
	h.forward.ServeHTTP(counted, r.WithContext(ctx))
	whole = true
}

// errCut says that an answer was begun. net/http doesn't tell which side has left.
var errCut = errors.New("the answer was cut off before its end")

// close records how a request that was allowed has ended.
func (j *exchange) close(status int, failure error) {
	j.mu.Lock()
	event := j.event
	j.mu.Unlock()
	event.Status = status
	if j.upgraded && failure == nil {
		event.Status = http.StatusSwitchingProtocols
	}
	if j.applied != nil {
		event.Secret = j.applied.Secret
	}
	j.permit.closing(event, failure)
}

// rewrite makes the request that is sent on: to what was judged, and to
// nothing that a server could understand otherwise.
func rewrite(p *httputil.ProxyRequest) {
	j := exchangeOf(p.In)
	p.Out.URL.Scheme = j.scheme
	p.Out.URL.Host = j.to.Authority()
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	own := ":80"
	if j.scheme == "https" {
		own = ":443"
	}
	p.Out.Host = strings.TrimSuffix(j.host.Authority(), own)
	if !isWebSocket(p.Out.Header) { // h2c would carry requests of its own
		p.Out.Header.Del("Upgrade")
		p.Out.Header.Del("Connection")
	}
	if user := p.Out.URL.User; user != nil && p.Out.Header.Get("Authorization") == "" { // of http://USER:PASSWORD@HOST/
		password, _ := user.Password()
		p.Out.SetBasicAuth(user.Username(), password)
	}
	p.Out.URL.User = nil
	p.Out.Header.Del("Http2-Settings")
	p.Out.Header.Del("Host")
	dropHosts(p.Out.Header)
	if j.body != nil {
		j.body.out = p.Out
	}
}

func isWebSocket(h http.Header) bool { return strings.EqualFold(h.Get("Upgrade"), "websocket") }

// countedBody counts a request's body, and passes on the trailer after it.
type countedBody struct {
	io.ReadCloser
	count interface{ Add(int64) int64 }
	in    *http.Request
	out   *http.Request // that is sent on
	over  func()        // gives its place to another
}

// ruleHeads is the rule against more long heads than there is room for.
const ruleHeads = "heads-limit"

// holdHead makes a long head, and the copy of it that is sent on, count as long as its request
// takes.
func (h *httpSide) holdHead(r *http.Request) (*sniff.Share, error) {
	size := len(r.RequestURI)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	if size < shortHead {
		return nil, nil
	}
	share := h.e.heads.Share()
	return share, share.Hold(2 * size)
}

// longBody waits for a place for a request's body, if that is long or may be. over gives
// it back. The error is a *meter.Limited, or that the request has ended.
func (h *httpSide) longBody(ctx context.Context, r *http.Request) (over func(), err error) {
	if r.ContentLength >= 0 && r.ContentLength < maxFrame {
		return func() {}, nil
	}
	select {
	case h.bodies <- struct{}{}:
		return sync.OnceFunc(func() { <-h.bodies }), nil
	default:
	}
	timer := time.NewTimer(deadline.Answer)
	defer timer.Stop()
	select {
	case h.bodies <- struct{}{}:
		return sync.OnceFunc(func() { <-h.bodies }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		return nil, &meter.Limited{Rule: "connection-limit", RetryAfter: time.Second, Reason: fmt.Sprintf("%d long bodies are being sent", cap(h.bodies))}
	}
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.count.Add(int64(n))
	if err != nil {
		b.over()
	}
	if err == io.EOF && b.out != nil {
		for name := range b.out.Trailer { // those that were announced
			b.out.Trailer[name] = b.in.Trailer[name]
		}
	}
	return n, err
}

// countedWriter counts a response's body, and sends each part of it at once. Of
// a body whose length is known the last part goes with what ends the response, and the first
// with the head; of one whose length is not, httputil.ReverseProxy sees to that.
type countedWriter struct {
	http.ResponseWriter
	count   interface{ Add(int64) int64 }
	left    int64 // bytes of the body that are to come; 0 or less where that is not known
	status  int
	failure error
}

func (w *countedWriter) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *countedWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.count.Add(int64(n))
	if w.left -= int64(n); w.left > 0 && err == nil {
		err = http.NewResponseController(w.ResponseWriter).Flush()
	}
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// freeBody is a request's body whose Read ends when it is closed, or when the connection that it
// goes out on is. net/http waits for the Read before it says what became of a request, and ends
// the answer; the client may send no more before it hears that.
type freeBody struct {
	io.ReadCloser
	buf    []byte // of reads that may outlive the one who has asked
	got    chan read
	closed chan struct{}
	once   sync.Once
	gone   <-chan struct{} // the connection, once there is one
}

type read struct {
	n   int
	err error
}

var errGone = errors.New("the connection to the server has ended before the whole request was sent")

// maxRead is how many bytes are read at a time.
const maxRead = 8 << 10

// newFreeBody frees a body with so many bytes; -1 is not known.
func newFreeBody(body io.ReadCloser, length int64) *freeBody {
	room := maxRead
	if length >= 0 {
		room = int(min(length, maxRead-1)) + 1
	}
	return &freeBody{ReadCloser: body, buf: make([]byte, room), got: make(chan read, 1), closed: make(chan struct{})}
}

func (b *freeBody) Read(p []byte) (int, error) {
	select {
	case <-b.closed:
		return 0, errGone
	default:
	}
	buf := b.buf[:min(len(p), len(b.buf))]
	go func() {
		n, err := b.ReadCloser.Read(buf)
		b.got <- read{n, err}
	}()
	select {
	case got := <-b.got:
		return copy(p, buf[:got.n]), got.err
	case <-b.closed:
	case <-b.gone:
		b.once.Do(func() { close(b.closed) }) // for good: buf is not ours any more
	}
	return 0, errGone
}

func (b *freeBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.ReadCloser.Close()
}
