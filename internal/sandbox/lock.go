package sandbox

import (
	"context"
	"time"
)

// lockNotice is after how long the user is told what is waited for. Most of what is done to a
// sandbox takes less.
const lockNotice = 5 * time.Second

// lock is Store.Lock that says so when it waits.
func (s *Service) lock(ctx context.Context, name string) (unlock func(), err error) {
	notice := time.AfterFunc(lockNotice, func() {
		s.notify("waiting for another forage-ctl that works on " + name + "; if it was stopped (Ctrl-Z), have it go on, or end it")
	})
	defer notice.Stop()
	return s.Store.Lock(ctx, name)
}
