package egress

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestAnswersWhoHasNotSentAll: a client that waits for the answer before it sends the rest of a
// body gets what the server answers, and hears that the server has gone.
func TestAnswersWhoHasNotSentAll(t *testing.T) {
	for _, inside := range []bool{false, true} {
		for _, outside := range [][]string{nil, {"http/1.1"}} {
			for path, want := range map[string]string{"/answers": "403 enough", "/goes": "502 forage: "} {
				t.Run(fmt.Sprintf("HTTP/2 inside %v, outside %v, the server %s", inside, outside == nil, path[1:]), func(t *testing.T) {
					s := newSecureWorld(t, looked(t, inspected("a.example")), nil)
					s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						http.NewResponseController(w).EnableFullDuplex()
						io.ReadFull(r.Body, make([]byte, len("hello")))
						switch {
						case r.URL.Path == "/answers":
							w.WriteHeader(http.StatusForbidden)
							io.WriteString(w, "enough")
						case r.ProtoMajor > 1:
							panic(http.ErrAbortHandler)
						default: // net/http would wait for the rest
							conn, _, _ := http.NewResponseController(w).Hijack()
							conn.Close()
						}
					}), outside...)
					body, rest := io.Pipe()
					defer rest.Close()
					go io.WriteString(rest, "hello")
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://a.example"+path, struct{ io.Reader }{body})
					if err != nil {
						t.Fatal(err)
					}
					answered := make(chan string, 1)
					go func() {
						res, err := s.client(inside).Do(r)
						if err != nil {
							answered <- err.Error()
							return
						}
						text, err := io.ReadAll(res.Body)
						if err != nil {
							text = []byte(err.Error())
						}
						answered <- fmt.Sprint(res.StatusCode, " ", string(text))
					}()
					select {
					case got := <-answered:
						if !strings.HasPrefix(got, want) {
							t.Errorf("got %q, want %q", got, want)
						}
					case <-time.After(patience):
						t.Error("it waits in vain")
					}
				})
			}
		}
	}
}
