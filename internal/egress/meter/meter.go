// Package meter counts what a sandbox uses of the network and of language
// models, and says when it has had enough. It decides nothing else and knows no connection:
// the engine asks an Account before it goes on, and tells it what was moved.
//
// Tokens are read from the answers of the hosts that Metered names, as they pass (Watch):
// Anthropic's Messages, OpenAI's Chat Completions and Responses and what is
// compatible with them, and Gemini's generateContent, as JSON or as a stream of
// events. An answer that tells no use, or whose end the client didn't wait
// for, is estimated from its text, four bytes a token. What is not counted: what
// was asked for in batches, and answers to GET that tell nothing; images and searches are
// counted by their tokens alone. WebSockets to such hosts can't be counted, so Prepare
// refuses them where there is a budget.
//
// A budget is looked at before a request, and an answer is counted at its end:
// answers that are on their way when it is reached go on to their end, so it
// may be exceeded by what is under way at that moment.
package meter

import (
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"forage"
)

// Usage is what one answer of a language model took, in tokens.
type Usage struct {
	Host                  string // that answered
	Model                 string // as the answer names it
	In, Out               int64  // In is without what was read from or written to a cache
	CacheRead, CacheWrite int64
	CacheWriteHour        int64 // those of CacheWrite that are kept for an hour, and cost more
	Estimated             bool  // the answer did not tell, or not all
}

// Tokens are all of them.
func (u Usage) Tokens() int64 {
	return add(add(add(u.In, u.Out), u.CacheRead), u.CacheWrite)
}

// Totals is what a sandbox has used so far, over all its starts.
type Totals struct {
	Requests int64   `json:"requests"`
	Bytes    int64   `json:"bytes"`
	Tokens   int64   `json:"tokens"`
	Cost     float64 `json:"cost"` // US dollars
}

// Account is one sandbox's use, and its bounds. It may be used from any goroutine.
type Account struct {
	now     func() time.Time
	changed chan struct{} // holds one while something was used that no Ledger has seen

	mu     sync.Mutex
	bounds forage.Traffic
	used   Totals
	open   int64 // connections
	minute window
}

// NewAccount continues from what was used before.
func NewAccount(bounds forage.Traffic, before Totals, now func() time.Time) *Account {
	return &Account{now: now, changed: make(chan struct{}, 1), bounds: bounds, used: before, minute: window{began: now()}}
}

// tell wakes the Ledger, if there is one.
func (a *Account) tell() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// Admit counts a request to host ("" where it has no name), or a connection that is not looked
// into. The error is a *Limited, and then nothing is counted.
func (a *Account) Admit(host string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.spentLocked(host); err != nil {
		return err
	}
	if limit := a.bounds.RequestsPerMinute; limit > 0 {
		if wait := a.minute.take(a.now(), limit); wait > 0 {
			return &Limited{Rule: "requests-per-minute", RetryAfter: wait,
				Reason: fmt.Sprintf("%d requests were made within a minute, which is the sandbox's bound", limit)}
		}
	}
	a.used.Requests = add(a.used.Requests, 1)
	a.tell()
	return nil
}

// spentLocked says what has been used up of what a request to host takes.
func (a *Account) spentLocked(host string) error {
	b := a.bounds
	switch {
	case b.BytesMax > 0 && a.used.Bytes >= b.BytesMax:
		return &Limited{Rule: "bytes-max", Reason: fmt.Sprintf("the sandbox has moved %d bytes, its bound is %d", a.used.Bytes, b.BytesMax)}
	case !a.budgetLocked() || !Metered(host):
	case b.MaxTokens > 0 && a.used.Tokens >= b.MaxTokens:
		return &Limited{Rule: "max-tokens", Reason: fmt.Sprintf("the sandbox has used %d tokens, its budget is %d", a.used.Tokens, b.MaxTokens)}
	case b.MaxCost > 0 && a.used.Cost >= b.MaxCost:
		return &Limited{Rule: "max-cost", Reason: fmt.Sprintf("the sandbox has used language models for $%.2f, its budget is $%.2f", a.used.Cost, b.MaxCost)}
	}
	return nil
}

// Budget says whether tokens or cost are bounded, so that the answers of
// metered hosts have to be looked into.
func (a *Account) Budget() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.budgetLocked()
}

func (a *Account) budgetLocked() bool { return a.bounds.MaxTokens > 0 || a.bounds.MaxCost > 0 }

// Prepare changes a request to host, before it is sent on, so that its answer can be
// read. One whose answer can't be counted is refused with a *Limited where there is a budget.
func (a *Account) Prepare(host string, r *http.Request) error {
	if !Metered(host) {
		return nil
	}
	if r.Header.Get("Upgrade") != "" && a.Budget() {
		return &Limited{Rule: "not-metered", Reason: "the sandbox has a budget of tokens, and what a WebSocket takes of it can't be counted; use HTTP"}
	}
	r.Header.Set("Accept-Encoding", "identity")
	return nil
}

// Open counts a connection until it is closed. The error is a *Limited.
func (a *Account) Open() (close func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if limit := a.bounds.ConnectionsMax; limit > 0 && a.open >= limit {
		return nil, &Limited{Rule: "connections-max", RetryAfter: time.Second,
			Reason: fmt.Sprintf("%d connections are open, which is the sandbox's bound", a.open)}
	}
	a.open++
	return sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.open--
	}), nil
}

// Bytes counts bytes that have been moved; false says that there may be no more.
func (a *Account) Bytes(n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used.Bytes = add(a.used.Bytes, n)
	a.tell()
	return a.bounds.BytesMax <= 0 || a.used.Bytes <= a.bounds.BytesMax
}

// BytesLeft is how many bytes may still be moved.
func (a *Account) BytesLeft() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bounds.BytesMax <= 0 {
		return math.MaxInt64
	}
	return max(a.bounds.BytesMax-a.used.Bytes, 0)
}

// Spend counts what a language model took, and returns what that costs in US dollars.
func (a *Account) Spend(u Usage) (cost float64) {
	cost = priceOf(u)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used.Tokens = add(a.used.Tokens, u.Tokens())
	a.used.Cost += cost
	a.tell()
	return cost
}

// Totals is what has been used.
func (a *Account) Totals() Totals {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used
}

// Connections are those that are open.
func (a *Account) Connections() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open
}

// Bounds are those that are in force.
func (a *Account) Bounds() forage.Traffic {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bounds
}

// SetBounds changes the bounds. What was used stays used.
func (a *Account) SetBounds(bounds forage.Traffic) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bounds = bounds
}

// Limited says that a bound is reached.
type Limited struct {
	Rule       string        // "requests-per-minute", "bytes-max", "connections-max", "max-tokens", "max-cost" or "not-metered"
	Reason     string        // for people
	RetryAfter time.Duration // 0: waiting doesn't help
}

func (l *Limited) Error() string { return l.Reason }

// Header is the value of Retry-After (RFC 9110, section 10.2.3); "" is none.
func (l *Limited) Header() string {
	if l.RetryAfter <= 0 {
		return ""
	}
	return fmt.Sprint(int64(math.Ceil(l.RetryAfter.Seconds())))
}

// add is a + n without wrapping around; a negative n counts for nothing.
func add(a, n int64) int64 {
	switch {
	case n <= 0:
		return a
	case a > math.MaxInt64-n:
		return math.MaxInt64
	}
	return a + n
}

// window counts what happened in the last minute, in slots of a second. Every minute,
// wherever it begins, holds no more than was allowed; a place becomes free
// at most a second late.
type window struct {
	began time.Time
	slots [61]int64 // of the seconds up to last, each at its number modulo the length
	last  int64     // the second, since began, that was counted last
	sum   int64
}

// take counts one when fewer than limit are in the window, and else returns how
// long to wait until there is room.
func (w *window) take(now time.Time, limit int64) time.Duration {
	const size = int64(len(w.slots))
	at := now.Sub(w.began)
	second := max(int64(at/time.Second), w.last) // a clock that is put back stands still
	for ; w.last < second && w.sum > 0; w.last++ {
		next := &w.slots[(w.last+1)%size]
		w.sum -= *next
		*next = 0
	}
	w.last = second
	if w.sum < limit {
		w.slots[second%size]++
		w.sum++
		return 0
	}
	left := w.sum
	for s := second - size + 1; ; s++ {
		if s < 0 {
			continue
		}
		if left -= w.slots[s%size]; left < limit {
			return time.Duration(s+size)*time.Second - at
		}
	}
}
