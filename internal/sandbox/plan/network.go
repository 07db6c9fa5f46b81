package plan

import (
	"cmp"
	"context"
	"forage"
	"forage/internal/config"
	"forage/internal/hostset"
	"forage/internal/policy"
	"forage/internal/store"
	"maps"
	"slices"
)

// NetworkChange is what flags change of a network; zero fields change nothing.
type NetworkChange struct {
	Mode    forage.NetworkMode
	Allow   []string
	Remove  []string
	Monitor *bool
	// AllowLast allows what was refused last, as well.
	AllowLast bool
}

// Empty says whether nothing is changed.
func (c NetworkChange) Empty() bool {
	return c.Mode == "" && len(c.Allow) == 0 && !c.AllowLast && len(c.Remove) == 0 && c.Monitor == nil
}

// network is the template's policy with what the flags say. The tools inside use the same
// registries as those that it allows.
func (p *planner) network(ctx context.Context) (err error) {
	change := NetworkChange{Mode: forage.NetworkMode(p.opts.Network), Allow: p.opts.Allow}
	if p.opts.Monitor {
		change.Monitor = &p.opts.Monitor
	}
	network, sets, err := p.host.changed(ctx, p.chosen.Network, change, hostileOf(p.plan))
	if err != nil {
		return err
	}
	if len(p.opts.Allow) > 0 && network.Mode == forage.NetworkNone {
		return forage.WithHint(forage.Errorf(forage.ErrUsage, "--allow has no effect while the network is none"), "add --network restricted")
	}
	for _, set := range sets {
		p.notes = append(p.notes, set.Notes...)
	}
	p.sets, p.plan.Network, p.plan.Spec.Network = sets, network, network.Mode
	return checkNetwork(p.forbid, network)
}

// Changed is the network of a sandbox with change made to it, and what the user should know of
// that. It refuses what the configuration forbids, as when a sandbox is made.
func (h *Host) Changed(ctx context.Context, record store.Record, change NetworkChange) (network forage.Network, notes []string, err error) {
	for _, host := range change.Remove {
		if !slices.Contains(record.Network.Allow, host) {
			return network, nil, forage.WithHint(
				forage.Errorf(forage.ErrUsage, "%q is not among the allowed hosts", host),
				"`forage-ctl network "+record.Name+"` lists them as they must be written")
		}
	}
	network, sets, err := h.changed(ctx, record.Network, change, hostileOf(record.Plan))
	if err != nil {
		return network, nil, err
	}
	for _, set := range sets {
		notes = append(notes, set.Notes...)
	}
	forbid := h.Config.Forbid
	if len(change.Allow) > 0 || change.AllowLast {
		err = forbid.CheckFlag("allow")
		if network.Mode == forage.NetworkNone {
			notes = append(notes, "the network is none, which allows nothing; `forage-ctl network "+record.Name+" restricted` puts what is allowed in force")
		}
	}
	if err == nil && change.Mode != "" && change.Mode != forage.NetworkNone {
		err = forbid.CheckFlag("network")
	}
	if err == nil {
		err = checkNetwork(forbid, network)
	}
	return network, notes, err
}

// changed is network with change made to it, and the sets that were found for that.
func (h *Host) changed(ctx context.Context, network forage.Network, change NetworkChange, hostile []string) (forage.Network, []hostset.Set, error) {
	network.Mode = cmp.Or(change.Mode, network.Mode, forage.NetworkNone)
	if change.Monitor != nil {
		network.Monitor = *change.Monitor
	}
	network.Allow, network.Rules, network.Sets = slices.Clone(network.Allow), slices.Clone(network.Rules), maps.Clone(network.Sets)
	for _, host := range change.Remove {
		network.Allow = slices.DeleteFunc(network.Allow, func(allowed string) bool { return allowed == host })
		delete(network.Sets, host) // when it is allowed again, the tools are asked again
	}
	for _, host := range change.Allow {
		if !slices.Contains(network.Allow, host) {
			network.Allow = append(network.Allow, host)
		}
	}
	var sets []hostset.Set
	if network.Mode != forage.NetworkNone {
		var err error
		if sets, err = h.findSets(ctx, &network, hostile); err != nil {
			return network, nil, err
		}
	}
	if _, err := policy.Compile(network); err != nil {
		return network, nil, forage.Errorf(forage.ErrUsage, "%w", err)
	}
	return network, sets, nil
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
