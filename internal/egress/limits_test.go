package egress

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"forage"
	"forage/internal/audit"
	"forage/internal/egress/meter"
)

// With the requests of a minute used up there is a 429 that says how long to
// wait, on every way in.
func TestRequestsPerMinute(t *testing.T) {
	now := time.Now()
	account := meter.NewAccount(forage.Traffic{RequestsPerMinute: 1}, meter.Totals{}, func() time.Time { return now })
	s := newSecureWorld(t, looked(t, inspected("a.example"), inspected("b.example"), forage.Rule{Host: "b.example:22"}), func(c *Config) { c.Account = account })
	s.serveTLS(public+":443", &site{})
	s.serve(public+":22", echo)
	for _, http2 := range []bool{false, true} {
		client := s.client(http2)
		res, err := client.Get("https://a.example/")
		if status, body := answer(t, res, err); status != 200 && !http2 {
			t.Errorf("%d, %q", status, body)
		}
		res, err = client.Get("https://a.example/")
		if status, body := answer(t, res, err); status != 429 || res.Header.Get("Retry-After") == "" || !strings.HasPrefix(body, "forage: denied (requests-per-minute): ") {
			t.Errorf("%d, %q, %v", status, body, res.Header)
		}
	}
	allowed := 0 // as the decision, not as the end
	for _, e := range s.log.all() {
		if e.Kind == audit.HTTP && e.Verdict == "allow" && e.Reason == "" {
			allowed++
		}
	}
	if allowed != 1 {
		t.Errorf("%d requests are recorded as allowed, one was", allowed)
	}
	clear := s.toName("a.example", 80)
	io.WriteString(clear, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
	if status, _ := get(t, bufio.NewReader(clear), "GET"); status != 429 {
		t.Errorf("port 80: %d", status)
	}
	if _, _, status := s.connectProxy("b.example:22"); !strings.Contains(status, "429") {
		t.Error(status)
	}
	expectReset(t, s.toName("b.example", 22))
	if e := s.denied("requests-per-minute"); e.Host != "a.example" {
		t.Errorf("%+v", e)
	}
	now = now.Add(2 * time.Minute)
	_, r, status := s.connectProxy("b.example:22")
	if !strings.Contains(status, "200") {
		t.Error(status)
	}
	expectLine(t, r, "hello\n")
}

// Connections beyond the bound are reset, or answered where that is understood.
func TestConnectionsMax(t *testing.T) {
	account := meter.NewAccount(forage.Traffic{ConnectionsMax: 1}, meter.Totals{}, time.Now)
	s := newSecureWorld(t, looked(t, inspected("a.example"), forage.Rule{Host: "a.example:22"}), func(c *Config) { c.Account = account })
	s.serveTLS(public+":443", &site{})
	s.serve(public+":22", echo)
	first := s.toName("a.example", 22)
	expectLine(t, bufio.NewReader(first), "hello\n")
	expectReset(t, s.toName("a.example", 22))
	conn, r := s.secure("a.example")
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
	if status, body := get(t, r, "GET"); status != 429 || !strings.Contains(body, "connections-max") {
		t.Errorf("%d, %q", status, body)
	}
	conn.Close()
	first.Close()
	s.closed(audit.Connect)
	eventually(t, "a place for another", func() bool { return account.Connections() == 0 })
	expectLine(t, bufio.NewReader(s.toName("a.example", 22)), "hello\n")
}

// Requests of HTTP/2 are bounded like connections, however few those are.
func TestRequestsUnderWay(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example")), func(c *Config) { c.MaxConnections = 4 })
	s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	client := s.client(true)
	for i := range 5 {
		res, err := client.Get("https://a.example/")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if (res.StatusCode == 429) != (i == 4) {
			t.Errorf("request %d: %d", i, res.StatusCode)
		}
	}
	s.denied("connection-limit")
}

// Long heads share a budget, and long bodies of requests a number of places.
func TestLongHeadsAndBodies(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example")), func(*Config) {})
	s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	held := s.engine.heads.Share()
	if err := held.Hold(headsBudget - 4<<10); err != nil {
		t.Fatal(err)
	}
	r, _ := http.NewRequest("GET", "https://a.example/", nil)
	r.Header.Set("X", strings.Repeat("x", 8<<10))
	res, err := s.client(true).Do(r)
	if status, body := answer(t, res, err); status != 403 || !strings.Contains(body, ruleHeads) {
		t.Errorf("%d, %q", status, body)
	}
	held.Close()
	for range maxBodies {
		s.engine.http.bodies <- struct{}{}
	}
	answered := make(chan string)
	go func() {
		res, err := s.client(true).Post("https://a.example/", "text/plain", strings.NewReader(strings.Repeat("x", maxFrame)))
		_, body := answer(t, res, err)
		answered <- body
	}()
	<-s.engine.http.bodies // room for it, whether it has waited or not
	if body := <-answered; len(body) != maxFrame {
		t.Errorf("%d bytes came back", len(body))
	}
}

// Beyond the requests that may be refused at one time, a connection of HTTP/2 is ended, and its
// line says why.
func TestRequestsBeingRefused(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example")), func(*Config) {})
	for range maxServing {
		s.engine.http.serving <- struct{}{}
	}
	if _, err := s.client(true).Get("https://a.example/"); err == nil {
		t.Error("served")
	}
	if e := s.closed(audit.Connect); !strings.Contains(e.Reason, "1280 requests") {
		t.Errorf("%+v", e)
	}
}

// When all bytes are used up, what is under way is reset, and nothing more begins.
func TestBytesMax(t *testing.T) {
	account := meter.NewAccount(forage.Traffic{BytesMax: 1 << 20}, meter.Totals{}, time.Now)
	s := newSecureWorld(t, looked(t, inspected("a.example"), forage.Rule{Host: "a.example:22"}), func(c *Config) { c.Account = account })
	s.serve(public+":22", pour)
	s.serveTLS(public+":443", &site{})
	conn := s.toName("a.example", 22)
	if _, err := io.Copy(io.Discard, conn); err == nil { // what was on its way to a slow client is lost with the reset
		t.Error("it ends as if that was all")
	}
	if e := s.denied("bytes-max"); e.Host != "a.example" || e.Port != 22 {
		t.Errorf("%+v", e)
	}
	res, err := s.client(true).Get("https://a.example/")
	if status, body := answer(t, res, err); status != 429 || !strings.Contains(body, "bytes-max") || res.Header.Get("Retry-After") != "" {
		t.Errorf("%d, %q", status, body)
	}
	if used := account.Totals().Bytes; used < 1<<20 {
		t.Errorf("%d bytes were counted", used)
	}
}

// A budget of tokens makes a model's answers be read, and ends when it is used up.
func TestBudget(t *testing.T) {
	account := meter.NewAccount(forage.Traffic{MaxTokens: 10}, meter.Totals{}, time.Now)
	s := newSecureWorld(t, mustPolicy(t, "restricted", "api.anthropic.com"), func(c *Config) { c.Account = account })
	s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"type":"message","model":"claude-sonnet-4-5","usage":{"input_tokens":7,"output_tokens":5}}`)
	}))
	client := s.client(true)
	for _, want := range []int{200, 429} {
		res, err := client.Post("https://api.anthropic.com/v1/messages", "application/json", strings.NewReader("{}"))
		if status, body := answer(t, res, err); status != want {
			t.Errorf("%d, %q", status, body)
		}
	}
	e := s.closed(audit.HTTP)
	if e.Model != "claude-sonnet-4-5" || e.TokensIn != 7 || e.TokensOut != 5 || e.Cost <= 0 {
		t.Errorf("%+v", e)
	}
	s.denied("max-tokens")
	for _, host := range s.engine.Traffic() {
		if host.Host == "api.anthropic.com" && (host.Tokens != 12 || host.Requests != 1 || host.Denied != 1 || host.BytesIn == 0 || host.BytesOut != 2) {
			t.Errorf("%+v", host)
		}
	}
}

// A model reads a request whether its client waits for the answer or not: that is counted.
func TestBudgetCountsWhatIsNotWaitedFor(t *testing.T) {
	account := meter.NewAccount(forage.Traffic{MaxTokens: 10}, meter.Totals{}, time.Now)
	s := newSecureWorld(t, mustPolicy(t, "restricted", "api.anthropic.com"), func(c *Config) { c.Account = account })
	ctx, leave := context.WithCancel(t.Context())
	s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		leave()
		<-r.Context().Done()
	}))
	r, err := http.NewRequestWithContext(ctx, "POST", "https://api.anthropic.com/v1/messages", strings.NewReader(strings.Repeat("x", 400)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.client(true).Do(r); err == nil {
		t.Error("it was answered")
	}
	eventually(t, "the request is counted", func() bool { return account.Totals().Tokens == 100 })
}
