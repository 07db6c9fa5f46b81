package image

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"forage/internal/testdir"
)

type answering func(*http.Request) (*http.Response, error)

func (t answering) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// TestStalledRegistry: a registry that sends nothing any more, be it before its answer or within,
// is given up.
func TestStalledRegistry(t *testing.T) {
	for name, first := range map[string]string{"none": "", "half": "half", "whole": "whole"} {
		synctest.Test(t, func(t *testing.T) {
			silent := func(r *http.Request) error { <-r.Context().Done(); return r.Context().Err() }
			server := answering(func(r *http.Request) (*http.Response, error) {
				if first == "" {
					return nil, silent(r)
				}
				body, write := io.Pipe()
				go func() {
					io.Copy(write, strings.NewReader(first))
					if name == "whole" {
						write.Close()
						return
					}
					write.CloseWithError(silent(r))
				}()
				return &http.Response{Body: body}, nil
			})
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://registry.example/"+name, nil)
			testdir.Must(t, err)
			res, err := unstalled{server}.RoundTrip(r)
			if err == nil {
				_, err = io.ReadAll(res.Body)
				res.Body.Close()
			}
			if stalls := name != "whole"; stalls != errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
