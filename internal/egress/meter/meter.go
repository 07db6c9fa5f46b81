// Package meter counts what a sandbox uses of the network and of language
// models, and says when it has had enough.
package meter

import (
	"net/http"
	"time"

	"forage"
)

// Usage is what one answer of a language model took, in tokens.
type Usage struct {
	Model                 string
	In, Out               int64 // In is without what was read from or written to a cache
	CacheRead, CacheWrite int64
}

// Totals is what a sandbox has used so far, over all its starts.
type Totals struct {
	Requests int64   `json:"requests"`
	Bytes    int64   `json:"bytes"`
	Tokens   int64   `json:"tokens"`
	Cost     float64 `json:"cost"` // US dollars
}

// Account is one sandbox's use, and its bounds. It may be used from any goroutine.
type Account struct{}

// NewAccount continues from what was used before.
func NewAccount(bounds forage.Traffic, before Totals, now func() time.Time) *Account {
	return &Account{}
}

// Admit counts a request, or a connection that is not looked into. The error is
// a *Limited.
func (a *Account) Admit() error { return nil }

// Open counts a connection until it is closed. The error is a *Limited.
func (a *Account) Open() (close func(), err error) { return func() {}, nil }

// Bytes counts bytes that have been moved; false says that there may be no more.
func (a *Account) Bytes(n int64) bool { return true }

// Spend counts what a language model took.
func (a *Account) Spend(u Usage) (cost float64) { return 0 }

// Totals is what has been used.
func (a *Account) Totals() Totals { return Totals{} }

// SetBounds changes the bounds.
func (a *Account) SetBounds(forage.Traffic) {}

// Limited says that a bound is reached.
type Limited struct {
	Rule       string        // "requests-per-minute", "bytes-max", "connections-max", "max-tokens" or "max-cost"
	Reason     string        // for people
	RetryAfter time.Duration // 0: waiting doesn't help
}

func (l *Limited) Error() string { return l.Reason }

// Metered says whether the answers of a host tell the use of a language model,
// so that a budget has to look into them.
func Metered(host string) bool { return false }

// Watch reads along in the body of an answer to a request, without holding it up, and
// calls done once, when the body has ended or is closed, with what it told; not
// if it told nothing.
func Watch(res *http.Response, done func(Usage)) {}
