package egress

import (
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/audit"
)

// BenchmarkIntercepted asks for something small over connections that are looked
// into, 32 at a time, with HTTP/1.1 and HTTP/2 on both sides, with a real audit log.
func BenchmarkIntercepted(b *testing.B) {
	for _, kind := range []struct {
		name          string
		inside, there bool // whether HTTP/2 is spoken
	}{{"1.1 to 1.1", false, false}, {"1.1 to 2", false, true}, {"2 to 1.1", true, false}, {"2 to 2", true, true}} {
		b.Run(kind.name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "audit.jsonl")
			log, err := audit.Open(path, "box")
			if err != nil {
				b.Fatal(err)
			}
			defer log.Close()
			s := newSecureWorld(b, looked(b, inspected("a.example")), func(c *Config) { c.Audit = log })
			var protocols []string
			if !kind.there {
				protocols = []string{"http/1.1"}
			}
			body := make([]byte, 200)
			s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(body) }), protocols...)
			clients := make([]*http.Client, 32)
			for i := range clients {
				clients[i] = s.client(kind.inside)
			}
			ask := func(c *http.Client) {
				res, err := c.Get("https://a.example/small")
				if err != nil {
					b.Error(err)
					return
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
			for _, c := range clients {
				ask(c)
			}
			before := cpuTime(b)
			b.ResetTimer()
			var all sync.WaitGroup
			for i, c := range clients {
				all.Go(func() {
					for n := i; n < b.N; n += len(clients) {
						ask(c)
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime is what this process has used of the processors: on a machine that does other
// things, too, it says more than the clock.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
