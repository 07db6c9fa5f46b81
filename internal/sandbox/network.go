package sandbox

import (
	"context"

	"forage"
	"forage/internal/sandbox/plan"
	"forage/internal/store"
)

// Network returns the sandbox's network policy after making change to it. A
// running sandbox has it at once, without losing processes; a stopped one from
// its next start on.
func (s *Service) Network(ctx context.Context, name string, change plan.NetworkChange) (forage.Network, error) {
	var network forage.Network
	err := s.locked(ctx, name, func(record store.Record) (err error) {
		network = record.Network
		if change.Empty() {
			return nil
		}
		if change.AllowLast {
			if change.Allow, change.Mode, err = s.lastRefused(ctx, record, change); err != nil {
				return err
			}
		}
		var notes []string
		if network, notes, err = s.Host.Changed(ctx, record, change); err != nil {
			return err
		}
		s.tell(notes)
		if s.Host.Alive(name) {
			if err := s.client(name).SetNetwork(ctx, network); err == nil || s.Host.Alive(name) {
				return err
			}
		}
		if record, err = s.settled(ctx, name); err != nil { // it may have ended meanwhile
			return err
		}
		record.Network = network
		return s.Host.Store.Save(record)
	})
	return network, err
}
