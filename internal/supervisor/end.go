package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"forage/internal/audit"
)

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
		reason = strings.ReplaceAll(err.Error(), "\n", "; ") // which errors that were joined hold
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

// Stop ends the sandbox at once. It returns when nothing is left.
func (s *Sandbox) Stop() error {
	closed := make(chan error, 1)
	go func() { closed <- s.engine.Close() }() // while the kernel ends what runs inside
	if err := errors.Join(s.stopFor(stopped, 0), <-closed); err != nil {
		return err
	}
	<-s.done
	return nil
}

const stopped = "it was asked to stop"

// stopFor ends what runs inside: SIGTERM to all of it, SIGKILL after grace. reason is why.
func (s *Sandbox) stopFor(reason string, grace time.Duration) error {
	s.mu.Lock()
	if s.reason == "" {
		s.reason = reason
	}
	s.mu.Unlock()
	if err := s.instance.Stop(context.Background(), grace); err != nil {
		return fmt.Errorf("stopping the sandbox: %w", err)
	}
	return nil
}
