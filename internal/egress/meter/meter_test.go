package meter

import (
	"errors"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"forage"
)

// clock is a time that tests put forward.
type clock struct{ at time.Time }

func newClock() *clock                { return &clock{time.Unix(1_700_000_000, 0)} }
func (c *clock) now() time.Time       { return c.at }
func (c *clock) pass(d time.Duration) { c.at = c.at.Add(d) }

func limited(t *testing.T, err error) Limited {
	t.Helper()
	var l *Limited
	if !errors.As(err, &l) {
		t.Fatalf("%v is no *Limited", err)
	}
	return *l
}

func TestBounds(t *testing.T) {
	const model, other = "api.anthropic.com", "files.example.com"
	opus := Usage{Host: model, Model: "claude-opus-4-1", In: 800, Out: 200}
	tests := []struct {
		name   string
		bounds forage.Traffic
		before Totals
		spend  Usage
		host   string
		rule   string // "" is admitted
	}{
		{"no bound", forage.Traffic{}, Totals{1e9, 1e15, 1e15, 1e9}, opus, model, ""},
		{"bytes left", forage.Traffic{BytesMax: 100}, Totals{Bytes: 99}, Usage{}, other, ""},
		{"bytes used", forage.Traffic{BytesMax: 100}, Totals{Bytes: 100}, Usage{}, other, "bytes-max"},
		{"tokens left", forage.Traffic{MaxTokens: 1001}, Totals{}, opus, model, ""},
		{"tokens used", forage.Traffic{MaxTokens: 1000}, Totals{}, opus, model, "max-tokens"},
		{"tokens used before", forage.Traffic{MaxTokens: 1000}, Totals{Tokens: 1000}, Usage{}, model, "max-tokens"},
		{"tokens used, no model", forage.Traffic{MaxTokens: 1000}, Totals{}, opus, other, ""},
		{"cost left", forage.Traffic{MaxCost: 0.0271}, Totals{}, opus, model, ""},
		{"cost used", forage.Traffic{MaxCost: 0.027}, Totals{}, opus, model, "max-cost"},
		{"cost used before", forage.Traffic{MaxCost: 1}, Totals{Cost: 1}, Usage{}, "API.Anthropic.com.", "max-cost"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := NewAccount(tt.bounds, tt.before, newClock().now)
			a.Spend(tt.spend)
			before := a.Totals()
			err := a.Admit(tt.host)
			if tt.rule == "" {
				before.Requests++
				if err != nil {
					t.Error(err)
				}
			} else if l := limited(t, err); l.Rule != tt.rule || l.Header() != "" {
				t.Errorf("%+v", l)
			}
			if diff := cmp.Diff(before, a.Totals()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestConnections(t *testing.T) {
	a := NewAccount(forage.Traffic{ConnectionsMax: 2}, Totals{}, newClock().now)
	first, err := a.Open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Open(); err != nil {
		t.Fatal(err)
	}
	_, err = a.Open()
	if l := limited(t, err); l.Rule != "connections-max" || l.Header() != "1" {
		t.Errorf("%+v", l)
	}
	first()
	first() // closing twice makes no room for two
	if _, err := a.Open(); err != nil {
		t.Error(err)
	}
	if _, err := a.Open(); err == nil {
		t.Error("a third connection is open")
	}
	a.SetBounds(forage.Traffic{})
	if _, err := a.Open(); err != nil {
		t.Error(err)
	}
}

// Whoever waits as long as Retry-After says is let in, and never before there is
// room: no minute, wherever it begins, has more than the bound.
func TestRequestsPerMinute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 20).Draw(t, "limit")
		clock := newClock()
		a := NewAccount(forage.Traffic{RequestsPerMinute: limit}, Totals{}, clock.now)
		var taken []time.Time
		for range rapid.IntRange(1, 100).Draw(t, "requests") {
			clock.pass(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "pause")))
			var l *Limited
			if err := a.Admit("example.com"); errors.As(err, &l) {
				if l.Rule != "requests-per-minute" || l.RetryAfter <= 0 || l.RetryAfter > 61*time.Second {
					t.Fatalf("%+v", l)
				}
				within := 0
				for _, at := range taken {
					if clock.at.Sub(at) < 61*time.Second {
						within++
					}
				}
				if int64(within) < limit {
					t.Fatalf("refused after %d requests, of %d", within, limit)
				}
				clock.pass(l.RetryAfter)
				if err := a.Admit("example.com"); err != nil {
					t.Fatalf("after Retry-After: %v", err)
				}
			}
			taken = append(taken, clock.at)
			if n := len(taken) - 1 - int(limit); n >= 0 && clock.at.Sub(taken[n]) < time.Minute {
				t.Fatalf("%d requests within %v", limit+1, clock.at.Sub(taken[n]))
			}
		}
	})
}

func TestBytes(t *testing.T) {
	a := NewAccount(forage.Traffic{BytesMax: 100}, Totals{}, newClock().now)
	for _, step := range []struct {
		n    int64
		want bool
	}{{60, true}, {-50, true}, {40, true}, {1, false}, {math.MaxInt64, false}, {math.MaxInt64, false}} {
		if got := a.Bytes(step.n); got != step.want {
			t.Errorf("%d more: %v", step.n, got)
		}
	}
	if used := a.Totals().Bytes; used != math.MaxInt64 {
		t.Errorf("the sum wrapped around to %d", used)
	}
}

func TestPrepare(t *testing.T) {
	for _, tt := range []struct {
		name, host, upgrade string
		bounds              forage.Traffic
		encoding            string
		rule                string
	}{
		{"metered", "api.openai.com", "", forage.Traffic{}, "identity", ""},
		{"not metered", "example.com", "websocket", forage.Traffic{MaxTokens: 1}, "gzip, br", ""},
		{"a WebSocket", "api.openai.com", "websocket", forage.Traffic{RequestsPerMinute: 1}, "identity", ""},
		{"a WebSocket past the budget", "api.openai.com", "websocket", forage.Traffic{MaxCost: 1}, "gzip, br", "not-metered"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := NewAccount(tt.bounds, Totals{}, newClock().now)
			r := &http.Request{Header: http.Header{"Accept-Encoding": {"gzip, br"}}}
			if tt.upgrade != "" {
				r.Header.Set("Upgrade", tt.upgrade)
			}
			err := a.Prepare(tt.host, r)
			if tt.rule != "" {
				if l := limited(t, err); l.Rule != tt.rule {
					t.Errorf("%+v", l)
				}
			} else if err != nil {
				t.Error(err)
			}
			if got := r.Header.Get("Accept-Encoding"); got != tt.encoding {
				t.Errorf("asks for %q", got)
			}
		})
	}
}

func TestMetered(t *testing.T) {
	for host, want := range map[string]bool{
		"api.anthropic.com": true, "API.OpenAI.com": true, "eu.api.openai.com": true, "mine.openai.azure.com": true,
		"us-central1-aiplatform.googleapis.com": true, "generativelanguage.googleapis.com.": true,
		"": false, "anthropic.com": false, "xapi.openai.com": false, "api.openai.com.evil.test": false, "storage.googleapis.com": false,
	} {
		if Metered(host) != want {
			t.Errorf("%q: %v", host, !want)
		}
	}
}

func TestPrice(t *testing.T) {
	const million = 1_000_000
	tests := []struct {
		name string
		use  Usage
		want float64
	}{
		{"in and out", Usage{Model: "claude-opus-4-5", In: 100_000, Out: million}, 25.5},
		{"with its date", Usage{Model: "claude-sonnet-4-5-20250929", Out: million}, 15},
		{"as others write it", Usage{Model: "anthropic/claude-sonnet-4.5", Out: million}, 15},
		{"of Vertex", Usage{Model: "claude-haiku-4-5@20251001", Out: million}, 5},
		{"a cache", Usage{Model: "claude-haiku-4-5", CacheRead: 100_000, CacheWrite: 80_000, CacheWriteHour: 30_000}, 0.01 + 0.0625 + 0.06},
		{"a long prompt", Usage{Model: "claude-sonnet-4-5", In: 200_001}, 1.200006},
		{"a long prompt from the cache", Usage{Model: "gemini-2.5-pro", CacheRead: million}, 0.25},
		{"mini is not its elder", Usage{Model: "gpt-5-mini-2025-08-07", Out: million}, 2},
		{"a later version is not known", Usage{Host: "api.openai.com", Model: "gpt-5.9", Out: million}, 168},
		{"a made-up name", Usage{Host: "api.anthropic.com", Model: "claude-haiku-4-5-free", Out: million}, 75},
		{"no name", Usage{Host: "generativelanguage.googleapis.com", Out: million}, 18},
		{"no name, anywhere", Usage{Host: "openrouter.ai", In: million}, 30},
		{"more of a cache than was written", Usage{Model: "claude-haiku-4-5", CacheWriteHour: million}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := priceOf(tt.use); math.Abs(got-tt.want) > 1e-9 {
				t.Errorf("$%v, want $%v", got, tt.want)
			}
		})
	}
	for _, p := range prices {
		if got := priceFor(p.service, p.model); got != p {
			t.Errorf("%s is priced as %s", p.model, got.model)
		}
		if p.in <= 0 || p.cached <= 0 || p.cached > p.in || p.model != plainModel(p.model) {
			t.Errorf("%+v", p)
		}
		if d := dearest(p.service); d.in < p.in || d.out < p.out || d.cached < p.cached || d.write < p.write {
			t.Errorf("%s costs more than the dearest", p.model)
		}
	}
}

func TestLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "box.usage.json")
	before, err := ReadTotals(path)
	if err != nil || before != (Totals{}) {
		t.Fatalf("%+v, %v", before, err)
	}
	a := NewAccount(forage.Traffic{}, before, newClock().now)
	l := Keep(a, path, time.Millisecond, func(err error) { t.Error(err) })
	a.Admit("example.com")
	for deadline := time.Now().Add(2 * time.Minute); ; { // by itself
		if got, err := ReadTotals(path); err != nil {
			t.Fatal(err)
		} else if got.Requests == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it is not written")
		}
		time.Sleep(time.Millisecond)
	}
	a.Bytes(77)
	a.Spend(Usage{Model: "gpt-5", In: 1000, Out: 1000})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := ReadTotals(path)
	if diff := cmp.Diff(Totals{Requests: 1, Bytes: 77, Tokens: 2000, Cost: 0.01125}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for name, text := range map[string]string{
		"empty": "", "cut": `{"requests":1,`, "negative": `{"tokens":-5}`, "huge": `{"cost":1e999}`, "none": "null and more",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadTotals(path); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if err := Keep(a, filepath.Join(path, "below-a-file"), time.Hour, nil).Close(); err != nil {
		t.Errorf("nothing has changed: %v", err)
	}
}
