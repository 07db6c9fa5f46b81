package supervisor

import (
	"context"
	"fmt"
	"time"

	"forage"
	"forage/internal/audit"
	"forage/internal/deadline"
	"forage/internal/store"
)

// openDoors starts what is reached from the host.
func (s *Sandbox) openDoors() error {
	server, err := newControlServer(s.setup.Dir, s.handle)
	if err != nil {
		return err
	}
	s.undo.add("the control socket", server.Close)
	if s.setup.Port == 0 {
		return nil
	}
	relay, err := newRelay(s.setup.Listen, s.setup.Port, s.instance.Dial, s.Record)
	if err != nil {
		return err
	}
	s.undo.add("the SSH port", relay.Close)
	return nil
}

// begin waits until the guest is ready. Init commands may take as long as they need.
func (s *Sandbox) begin(ctx context.Context) error {
	if len(s.setup.Plan.Spec.Init) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = deadline.Within(ctx, deadline.Progress, "the guest")
		defer cancel()
	}
	return s.guest.begin(ctx)
}

// settle makes a sandbox whose guest is ready a running one.
func (s *Sandbox) settle() error {
	if err := s.Record(audit.Event{Kind: audit.Lifecycle, Verdict: "allow", Reason: "running"}); err != nil {
		return err
	}
	s.mu.Lock()
	s.ready = true // before the record says so: one that runs and is not ready is ending
	s.mu.Unlock()
	if !s.setup.Plan.Ephemeral { // a run's record is never started again from
		if err := s.update(func(record *store.Record) {
			record.Phase, record.Reason, record.StartedAt = forage.PhaseRunning, "", time.Now().UTC()
		}); err != nil {
			return err
		}
	}
	if limit := s.setup.Plan.Spec.Limits.WallClock; limit > 0 {
		s.clock = time.AfterFunc(limit, func() {
			s.stopFor(fmt.Sprintf("its wall clock limit of %v was reached", limit), deadline.End)
		})
	}
	if s.activity.changed != nil && s.setup.Plan.Spec.Session {
		go s.tell()
	}
	go s.watch()
	return nil
}
