package secrets

import (
	"context"
	"time"

	"forage/internal/deadline"

	"golang.org/x/sync/singleflight"
)

// setback is how long a failure is remembered, so that a sandbox can't make the host run a
// command that fails as often as it likes.
const setback = 5 * time.Second

// cached keeps what was read for a while. Any number of callers wait for one reading, which
// goes on when those who wanted it have gone, as long as the owner of the source is there.
type cached struct {
	life   context.Context // the owner's
	read   func(context.Context) (Secret, error)
	now    func() time.Time
	flight singleflight.Group

	value   Secret // of the last reading, which the next one alone looks at
	err     error
	expires time.Time
}

func (c *cached) Get(ctx context.Context) (Secret, error) {
	done := c.flight.DoChan("", func() (any, error) {
		if c.now().Before(c.expires) {
			return c.value, c.err
		}
		ctx, cancel := deadline.Within(c.life, deadline.Progress, "the source of the secret")
		defer cancel()
		c.value, c.err = c.read(ctx)
		c.expires = c.now().Add(memory)
		if c.err != nil {
			c.expires = c.now().Add(setback)
		}
		return c.value, c.err
	})
	select {
	case result := <-done:
		return result.Val.(Secret), result.Err
	case <-ctx.Done():
		return Secret{}, context.Cause(ctx)
	}
}
