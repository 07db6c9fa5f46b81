package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"forage/internal/audit"
)

// wallClockGrace is how long a sandbox whose time is up has to end by itself.
const wallClockGrace = 10 * time.Second

// watch waits for the end, and takes everything back.
func (s *Sandbox) watch() {
	<-s.instance.Done()
	if s.clock != nil {
		s.clock.Stop()
	}
	s.mu.Lock()
	s.ready = false
	reason := s.reason
	s.mu.Unlock()

	var err error
	if reason == "" { // it was not asked for
		if err = s.instance.Err(); err == nil {
			err = errors.New("it ended by itself")
		}
		reason = err.Error()
	}
	err = errors.Join(err, s.Record(audit.Event{Kind: audit.Lifecycle, Reason: "ended: " + reason}), s.undo.run())
	s.mu.Lock()
	s.reason, s.err = reason, err
	s.mu.Unlock()
	close(s.done)
}

// Done is closed when nothing of the sandbox is left.
func (s *Sandbox) Done() <-chan struct{} { return s.done }

// Ended says, after Done, why the sandbox ended; the error is nil when it was asked to.
func (s *Sandbox) Ended() (reason string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason, s.err
}

// Stop ends the sandbox: SIGTERM to all that runs inside, SIGKILL after grace.
// It returns when nothing is left.
func (s *Sandbox) Stop(ctx context.Context, grace time.Duration) error {
	return s.stopFor(ctx, grace, "it was asked to stop")
}

// stopFor is Stop with a reason of the caller's.
func (s *Sandbox) stopFor(ctx context.Context, grace time.Duration, reason string) error {
	s.mu.Lock()
	if s.reason == "" {
		s.reason = reason
	}
	s.mu.Unlock()
	if err := s.instance.Stop(ctx, grace); err != nil {
		return fmt.Errorf("stopping the sandbox: %w", err)
	}
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
