package image

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestStalledRegistry: a registry that sends nothing any more, be it before its answer or within,
// is given up; one that is asked slowly is not.
func TestStalledRegistry(t *testing.T) {
	defer func(before time.Duration) { stallLimit = before }(stallLimit)
	end := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			io.WriteString(w, "half")
			w.(http.Flusher).Flush()
		}
		if r.URL.Path == "/whole" {
			io.WriteString(w, strings.Repeat("whole", 100))
			return
		}
		<-end
	}))
	defer server.Close()
	defer close(end)
	for path, limit := range map[string]time.Duration{"/none": time.Second, "/half": time.Second, "/whole": 5 * time.Minute} {
		stallLimit = limit
		read := make(chan error, 1)
		go func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
			var res *http.Response
			if err == nil {
				res, err = unstalled{http.DefaultTransport}.RoundTrip(r)
			}
			if err == nil {
				defer res.Body.Close()
				_, err = io.ReadAll(res.Body)
			}
			read <- err
		}()
		select {
		case err := <-read:
			if stalls := path != "/whole"; stalls != (err != nil) || stalls && !strings.Contains(err.Error(), "has sent nothing") {
				t.Errorf("%s: %v", path, err)
			}
		case <-time.After(5 * time.Minute):
			t.Fatalf("%s: it is waited for in vain", path)
		}
	}
}
