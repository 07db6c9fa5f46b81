package sandbox

import (
	"context"
	"maps"
	"slices"

	"forage"
	"forage/internal/config"
	"forage/internal/policy"
	"forage/internal/store"
)

// Network returns the sandbox's network policy after making change to it. A
// running sandbox has it at once, without losing processes; a stopped one from
// its next start on.
func (s *Service) Network(ctx context.Context, name string, change NetworkChange) (forage.Network, error) {
	var network forage.Network
	err := s.locked(ctx, name, func(record store.Record) error {
		network = record.Network
		if change.empty() {
			return nil
		}
		var err error
		if change.AllowLast {
			if change.Allow, change.Mode, err = s.lastRefused(ctx, record, change); err != nil {
				return err
			}
		}
		if network, err = s.changed(ctx, record, change); err != nil {
			return err
		}
		if err := s.mayChange(network, change); err != nil {
			return err
		}
		if s.alive(name) {
			if err := s.client(name).SetNetwork(ctx, network); err == nil || s.alive(name) {
				return err
			}
		}
		if record, err = s.settled(ctx, name); err != nil { // it may have ended meanwhile
			return err
		}
		record.Network = network
		return s.Store.Save(record)
	})
	return network, err
}

// mayChange refuses what the configuration forbids: when a sandbox is made it
// forbids the same.
func (s *Service) mayChange(network forage.Network, change NetworkChange) error {
	forbid := s.Config.Forbid
	if len(change.Allow) > 0 || change.AllowLast {
		if err := forbid.CheckFlag("allow"); err != nil {
			return err
		}
	}
	if change.Mode != "" && change.Mode != forage.NetworkNone {
		if err := forbid.CheckFlag("network"); err != nil {
			return err
		}
	}
	return checkNetwork(forbid, network)
}

// checkNetwork denies a network of a mode, or a way of enforcing it, that is forbidden.
func checkNetwork(forbid config.Forbid, network forage.Network) error {
	if network.Monitor {
		if err := forbid.CheckNetwork(config.MonitorNetwork); err != nil {
			return err
		}
	}
	return forbid.CheckNetwork(network.Mode)
}

func (c NetworkChange) empty() bool {
	return c.Mode == "" && len(c.Allow) == 0 && !c.AllowLast && len(c.Remove) == 0 && c.Monitor == nil
}

// changed is the network of a sandbox with change made to it.
func (s *Service) changed(ctx context.Context, record store.Record, change NetworkChange) (forage.Network, error) {
	name, network := record.Name, record.Network
	if change.Mode != "" {
		network.Mode = change.Mode
	}
	if change.Monitor != nil {
		network.Monitor = *change.Monitor
	}
	network.Allow = slices.Clone(network.Allow)
	for _, host := range change.Remove {
		at := slices.Index(network.Allow, host)
		if at < 0 {
			return forage.Network{}, forage.WithHint(
				forage.Errorf(forage.ErrUsage, "%q is not among the allowed hosts", host),
				"`forage-ctl network "+name+"` lists them as they must be written")
		}
		network.Allow = slices.Delete(network.Allow, at, at+1)
		if policy.IsSet(host) {
			network.Sets = maps.Clone(network.Sets)
			delete(network.Sets, host) // when it is allowed again, the tools are asked again
		}
	}
	for _, host := range change.Allow {
		if !slices.Contains(network.Allow, host) {
			network.Allow = append(network.Allow, host)
		}
	}
	if network.Mode != forage.NetworkNone {
		found, err := s.findSets(ctx, &network, hostileOf(record.Plan))
		if err != nil {
			return forage.Network{}, err
		}
		for _, set := range found {
			s.tell(set.Notes)
		}
	}
	if _, err := policy.Compile(network); err != nil {
		return forage.Network{}, forage.Errorf(forage.ErrUsage, "%w", err)
	}
	return network, nil
}
