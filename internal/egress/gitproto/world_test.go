package gitproto

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"forage"
	"forage/internal/testgit"
)

// rule is what the pushes of these tests are judged by.
var rule = forage.GitRule{Repos: []string{"acme/*"}, Push: []string{"agent/*", "refs/tags/v*"}}

// world is git's own server with the guard in front of it.
type world struct {
	url    string // of the repository, through the guard
	server *testgit.Repo

	chunked atomic.Bool // a push came in chunks

	mu     sync.Mutex
	pushes [][]byte // bodies that clients sent
}

// newWorld makes a server with one repository, acme/app.git.
func newWorld(t *testing.T, initArgs ...string) *world {
	t.Helper()
	backend := testgit.NewServer(t)
	w := &world{server: backend.Repo(t, "acme/app.git", initArgs...)}
	upstream := httptest.NewServer(backend)
	t.Cleanup(upstream.Close)
	front := httptest.NewServer(w.guarded(t, upstream.URL))
	t.Cleanup(front.Close)
	w.url = front.URL + "/acme/app.git"
	return w
}

// guarded sends requests on to upstream, pushes through the guard.
func (w *world) guarded(t *testing.T, upstream string) http.Handler {
	target, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host, out.RequestURI = target.Scheme, target.Host, ""
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
			var sent strings.Builder
			defer func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.pushes = append(w.pushes, []byte(sent.String()))
			}()
			if len(r.TransferEncoding) > 0 {
				w.chunked.Store(true)
			}
			body := io.TeeReader(r.Body, &sent)
			defer io.Copy(io.Discard, body)
			guard, err := Guard(body, rule)
			if err != nil {
				answer(t, rw, err)
				return
			}
			out.Body = io.NopCloser(guard)
		}
		res, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			_, _ = io.Copy(io.Discard, r.Body)
			answer(t, rw, err)
			return
		}
		defer res.Body.Close()
		for key, values := range res.Header {
			rw.Header()[key] = values
		}
		rw.WriteHeader(res.StatusCode)
		_, _ = io.Copy(rw, res.Body)
	})
}

// answer answers a push that is refused.
func answer(t *testing.T, w http.ResponseWriter, err error) {
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		t.Errorf("a push failed other than by being refused: %v", err)
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	contentType, body := refusal.Report()
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(body)
}

// lastPush is the body of the last push that had commands.
func (w *world) lastPush() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.pushes) - 1; i >= 0; i-- {
		if len(w.pushes[i]) > len(flushLine) {
			return w.pushes[i]
		}
	}
	return nil
}

// through reads what the guard gives on of a push, and the error at which it stops.
func through(body io.Reader) ([]byte, error) {
	guard, err := Guard(body, rule)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(guard)
}
