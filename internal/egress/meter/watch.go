package meter

import (
	"io"
	"net/http"
	"strings"
	"sync"
)

// Watch reads along in the body of an answer to a request, without holding it up, and
// calls done once, when the body has ended or is closed, with what it told; not
// if it told nothing. An encoded body is
// not understood, only estimated: call it after the encoding was taken off.
func Watch(res *http.Response, done func(Usage)) {
	if res.Body == nil || res.Body == http.NoBody || res.Request == nil || res.StatusCode == http.StatusSwitchingProtocols {
		return
	}
	w := &watched{ReadCloser: res.Body, done: done, host: res.Request.URL.Hostname()}
	if res.Request.Method == http.MethodPost && res.StatusCode < 300 {
		w.estimate, w.sent = true, max(res.Request.ContentLength, 0)
	}
	kind := strings.ToLower(res.Header.Get("Content-Type"))
	switch encoding := res.Header.Get("Content-Encoding"); {
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		w.opaque = true
	case strings.HasPrefix(kind, "text/event-stream"):
		w.scan.events = true
	case isForm(kind):
		w.opaque = true // whatever the method: another may be in a field
		w.estimate, w.sent = res.StatusCode < 300 && res.Request.ContentLength != 0, max(res.Request.ContentLength, 0)
	case kind != "" && !strings.Contains(kind, "json") && !strings.HasPrefix(kind, "text/"):
		return
	}
	res.Body = w
}

// isForm says whether an answer of that type is one that a client can ask Google's services
// for in place of JSON (alt=proto, callback, gRPC): a budget must not be gone round by it.
func isForm(kind string) bool {
	return strings.Contains(kind, "proto") || strings.Contains(kind, "grpc") || strings.Contains(kind, "javascript")
}

// watched is a body that is read along.
type watched struct {
	io.ReadCloser
	done     func(Usage)
	host     string
	estimate bool  // where the answer does not tell
	sent     int64 // bytes of the request's body, 0 where that is not known
	opaque   bool  // the body can't be read

	mu       sync.Mutex // a body may be closed while it is read
	finished bool
	whole    bool // it was read to its end
	read     int64
	scan     scanner
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.mu.Lock()
	if !w.finished {
		w.read += int64(n)
		if !w.opaque {
			w.scan.feed(p[:n])
		}
	}
	w.whole = w.whole || err == io.EOF
	w.mu.Unlock()
	if err != nil {
		w.finish()
	}
	return n, err
}

func (w *watched) Close() error {
	w.finish()
	return w.ReadCloser.Close()
}

func (w *watched) finish() {
	w.mu.Lock()
	if w.finished {
		w.mu.Unlock()
		return
	}
	w.finished = true
	u := w.scan.usage()
	u.Host = w.host
	if w.estimate && !w.scan.told.final {
		text := w.scan.text
		if w.opaque {
			text = w.read
		}
		u.guess(text, w.sent)
		if !w.whole && u.Tokens() == 0 {
			u = Unanswered(w.host, w.sent)
		}
	}
	w.mu.Unlock()
	if u.Tokens() > 0 {
		w.done(u)
	}
}

// Unanswered is what a request with so many bytes took, of which the client did not wait for the
// answer: the model has read it all the same.
func Unanswered(host string, sent int64) Usage {
	return Usage{Host: host, In: (max(sent, 0) + bytesPerToken - 1) / bytesPerToken, Estimated: true}
}

// bytesPerToken is what makers say of English text.
const bytesPerToken = 4

// guess completes what an answer with so many bytes of text did not tell.
func (u *Usage) guess(text, sent int64) {
	if text == 0 {
		return
	}
	if out := (text + bytesPerToken - 1) / bytesPerToken; out > u.Out {
		u.Out, u.Estimated = out, true
	}
	if u.In+u.CacheRead+u.CacheWrite == 0 {
		u.In, u.Estimated = sent/bytesPerToken, true
	}
}
