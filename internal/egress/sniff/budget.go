package sniff

import (
	"io"
	"sync"
)

// free is what each connection may hold of a head without asking the budget, in bytes.
const free = 4 << 10

// Budget bounds what long heads hold in memory together, whatever the number
// of connections that send them. It may be used from any goroutine; nil is without bound.
type Budget struct {
	mu   sync.Mutex
	left int
}

// NewBudget has room for so many bytes.
func NewBudget(bytes int) *Budget { return &Budget{left: bytes} }

// Share begins to hold something of the budget for one connection or request.
func (b *Budget) Share() *Share { return &Share{budget: b} }

// Share is what one connection holds of a Budget; nil is without bound.
type Share struct {
	budget *Budget
	held   int  // guarded by budget.mu
	closed bool // guarded by budget.mu
}

// Hold makes bytes what the share holds, more or less than before. The error, an *Error, says
// that there is no room for it, or that the share is closed.
func (s *Share) Hold(bytes int) error {
	if s == nil || s.budget == nil {
		return nil
	}
	more := max(bytes-free, 0)
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	if more > s.held && (s.closed || more-s.held > s.budget.left) {
		return refuse("heads-limit", "too many long heads are being read at one time")
	}
	s.budget.left -= more - s.held
	s.held = more
	return nil
}

// Reader reads from r what is then held, twice over: as it came, and put together.
func (s *Share) Reader(r io.Reader) io.Reader { return &sharedReader{share: s, src: r} }

type sharedReader struct {
	share *Share
	src   io.Reader
	read  int
}

func (r *sharedReader) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	r.read += n
	if refused := r.share.Hold(2 * r.read); refused != nil {
		return 0, refused
	}
	return n, err
}

// Close gives back what is held, for good.
func (s *Share) Close() {
	if s == nil || s.budget == nil {
		return
	}
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	s.budget.left += s.held
	s.held, s.closed = 0, true
}
