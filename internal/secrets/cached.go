package secrets

import (
	"context"
	"sync"
	"time"
)

// setback is how long a failure is remembered, so that a sandbox can't make the host run a
// command that fails as often as it likes.
const setback = 5 * time.Second

// readTimeout bounds one reading: long enough to unlock something with a passphrase.
const readTimeout = 60 * time.Second

// cached keeps what was read for a while. Any number of callers wait for one reading, which
// goes on when those who wanted it have gone, as long as the owner of the source is there.
type cached struct {
	life context.Context // the owner's
	read func(context.Context) (Secret, error)
	now  func() time.Time

	mu      sync.Mutex
	current *reading
}

// reading is one reading, done when the channel is closed.
type reading struct {
	done    chan struct{}
	value   Secret
	err     error
	expires time.Time
}

func (c *cached) Get(ctx context.Context) (Secret, error) {
	r := c.begin()
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		return Secret{}, context.Cause(ctx)
	}
}

// begin returns the reading that counts, which is a new one if the last is too old.
func (c *cached) begin() *reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.current; r != nil && (!r.finished() || c.now().Before(r.expires)) {
		return r
	}
	r := &reading{done: make(chan struct{})}
	c.current = r
	ctx, cancel := context.WithTimeout(c.life, readTimeout)
	go func() {
		defer cancel()
		defer close(r.done)
		r.value, r.err = c.read(ctx)
		r.expires = c.now().Add(memory)
		if r.err != nil {
			r.expires = c.now().Add(setback)
		}
	}()
	return r
}

func (r *reading) finished() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}
