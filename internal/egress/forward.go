package egress

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"forage/internal/audit"
	"forage/internal/egress/credential"
	"forage/internal/egress/gitproto"
	"forage/internal/egress/meter"
	"forage/internal/policy"
)

// job is what a request is forwarded for.
type job struct {
	s      *session
	to     policy.Request
	host   policy.Request // what the Host field says
	scheme string         // towards the server
	claim  *claim
	ctx    context.Context // of the request, from its arrival to its end
	event  audit.Event     // its lines in the audit log

	body     *countedBody
	writer   *countedWriter
	applied  *credential.Applied
	upgraded bool

	mu       sync.Mutex
	finished bool
	refusal  *gitproto.Refusal
	usage    meter.Usage
	cost     float64
}

type jobKey struct{}

func jobOf(r *http.Request) *job { return r.Context().Value(jobKey{}).(*job) }

// pass judges a request and forwards it.
func (h *httpSide) pass(w http.ResponseWriter, r *http.Request, j *job) {
	f := j.s.f
	j.event = requestEvent(r)
	select {
	case h.under <- struct{}{}:
		defer func() { <-h.under }()
	default:
		h.refuse(w, r, j.s, f.limited(j.event, j.to, &meter.Limited{Rule: "connection-limit", RetryAfter: time.Second,
			Reason: fmt.Sprintf("%d requests are under way", cap(h.under))}))
		return
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), jobKey{}, j))
	defer cancel(nil)
	defer context.AfterFunc(f.ctx, func() { cancel(nil) })()
	end := f.kill
	if j.s.http2 {
		end = func() { // the other requests on the connection go on
			cancel(errChanged)
			j.stopReading(w)
		}
		defer j.finish()
	}
	j.ctx = ctx
	var err error
	j.claim, err = f.judgeRequest(asked(j.to, r), j.event, end)
	defer j.claim.release()
	if err == nil {
		err = j.judgeReadings(r)
	}
	if err == nil && j.to.Port == tlsPort && j.scheme == "http" {
		err = f.deny(j.claim.event(), policy.Decision{Rule: "not-tls", Reason: "a request in the clear to the port of TLS"})
	}
	if err == nil {
		if err = f.admit(j.to.Host); err != nil {
			err = f.limited(j.event, j.to, err)
		}
	}
	if err != nil {
		h.refuse(w, r, j.s, err)
		return
	}
	j.claim.count()
	if !j.s.http2 {
		http.NewResponseController(w).EnableFullDuplex() // a server may answer before it has read everything
	}
	counted := &countedWriter{ResponseWriter: w, count: &j.claim.counts.In}
	j.writer = counted
	defer func() { j.close(counted.status, counted.failure) }() // also when the handler is aborted
	if r.Body != nil && r.Body != http.NoBody {
		j.body = &countedBody{ReadCloser: r.Body, count: &j.claim.counts.Out, in: r}
		r.Body = j.body
	}
	h.forward.ServeHTTP(counted, r.WithContext(ctx))
}

// stopReading makes reading the request's body fail: a transport that waits for
// more of it does not see that the request is over.
func (j *job) stopReading(w http.ResponseWriter) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.finished {
		http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	}
}

// finish says that the request's writer must not be used any more.
func (j *job) finish() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.finished = true
}

// close records how a request that was allowed has ended.
func (j *job) close(status int, failure error) {
	j.mu.Lock()
	event, usage := j.event, j.usage
	event.Cost = j.cost
	j.mu.Unlock()
	event.Status = status
	if j.upgraded && failure == nil {
		event.Status = http.StatusSwitchingProtocols
	}
	if j.applied != nil {
		event.Secret = j.applied.Secret
	}
	event.Model, event.TokensIn, event.TokensOut = usage.Model, usage.Tokens()-usage.Out, usage.Out
	j.claim.closing(event, failure)
}

// rewrite makes the request that is sent on: to what was judged, and to
// nothing that a server could understand otherwise.
func rewrite(p *httputil.ProxyRequest) {
	j := jobOf(p.In)
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
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.count.Add(int64(n))
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
