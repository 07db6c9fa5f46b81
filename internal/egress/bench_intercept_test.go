package egress

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/audit"
)

// BenchmarkIntercepted asks for something small over connections that are looked
// into, 32 at a time, with HTTP/1.1 and HTTP/2 on both sides and a real audit log. Each is followed by
// what client and server alone take, and gives the share of requests that is left where
// the processors are what there is too little of.
func BenchmarkIntercepted(b *testing.B) {
	for _, kind := range []struct {
		name          string
		inside, there bool // whether HTTP/2 is spoken
	}{{"1.1 to 1.1", false, false}, {"1.1 to 2", false, true}, {"2 to 1.1", true, false}, {"2 to 2", true, true}} {
		b.Run(kind.name, func(b *testing.B) {
			s := benchWorld(b, kind.there)
			through, direct := make([]*http.Client, 32), make([]*http.Client, 32)
			for i := range through {
				through[i] = s.client(kind.inside)
				direct[i] = s.direct(kind.inside && kind.there)
			}
			ours := askAll(b, through)
			b.StopTimer()
			theirs := askAll(b, direct)
			b.ReportMetric(float64(ours)/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(theirs)/float64(ours), "of-direct")
		})
	}
}

func benchWorld(b *testing.B, http2 bool) *secureWorld {
	log, err := audit.Open(filepath.Join(b.TempDir(), "audit.jsonl"), "box")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { log.Close() })
	s := newSecureWorld(b, looked(b, inspected("a.example")), func(c *Config) { c.Audit = log })
	var protocols []string
	if !http2 {
		protocols = []string{"http/1.1"}
	}
	body := make([]byte, 200)
	s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(body) }), protocols...)
	return s
}

// direct is a client that is not inside.
func (s *secureWorld) direct(http2 bool) *http.Client {
	c := s.client(http2)
	transport := c.Transport.(*http.Transport)
	transport.TLSClientConfig = &tls.Config{RootCAs: s.engine.config.RootCAs}
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return s.dial(ctx, netip.MustParseAddrPort(public+":443"))
	}
	return c
}

// askAll makes the benchmark's number of requests and returns what they took of the processors.
func askAll(b *testing.B, clients []*http.Client) time.Duration {
	ask := func(c *http.Client) {
		res, err := c.Get("https://a.example/small")
		if err != nil {
			b.Error(err)
			return
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			b.Error(err)
		}
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
	return cpuTime(b) - before
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
