package sandbox

import (
	"context"
	"slices"

	"forage"
	"forage/internal/rootfs"
)

// owner is the caller as whose tools and caches are looked for.
func (p *planner) owner() rootfs.Caller {
	who := p.service.Caller
	path, _ := who.Getenv("PATH")
	caller := rootfs.Caller{Path: path, Home: who.Home, Getenv: who.Getenv}
	for _, w := range p.plan.Workspaces() {
		caller.Hostile = append(append(caller.Hostile, w.Path), origins(w)...)
	}
	return caller
}

// caches shows what the host's package managers have downloaded, each under a layer of the sandbox's own. Where
// something else is mounted, that counts.
func (p *planner) caches(context.Context) error {
	spec := &p.plan.Spec
	mounts, found := rootfs.Caches(p.chosen.Caches, p.owner(), spec.Identity.Home)
	for i, mount := range mounts {
		about := slices.IndexFunc(found, func(f rootfs.Found) bool { return f.Shown == mount.Target })
		if why := p.whyNotShown(mount); why != "" {
			found[about].Shown, found[about].Why = "", why
			continue
		}
		spec.Mounts = append(spec.Mounts, mounts[i])
	}
	p.along = append(p.along, found...)
	return nil
}

// whyNotShown is why a folder of the caller's that nobody asked for by name is left out; "" is no reason.
func (p *planner) whyNotShown(mount forage.Mount) string {
	if err := p.mayShow(mount.Source, mount.Source); err != nil {
		return err.Error()
	}
	for _, other := range p.plan.Spec.Mounts {
		if other.Target != p.plan.Spec.Identity.Home && (rootfs.Within(other.Target, mount.Target) || rootfs.Within(mount.Target, other.Target)) {
			return other.Source + " is mounted at " + other.Target
		}
	}
	return ""
}
