package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"forage"
	"forage/internal/agent"
	"forage/internal/inject"
	"forage/internal/rootfs"
	"forage/internal/runtime"
	"forage/internal/store"
	"forage/internal/workspace"
)

// toolOwner is the caller as whose tools and caches are looked for.
func (h *Host) toolOwner() rootfs.Caller {
	path, _ := h.Caller.Getenv("PATH")
	return rootfs.Caller{Path: path, Home: h.Caller.Home, Getenv: h.Caller.Getenv, Inside: forage.HomePath}
}

// owner is toolOwner with what this sandbox will be able to change.
func (p *planner) owner() rootfs.Caller {
	caller := p.host.toolOwner()
	caller.Inside = p.plan.Spec.Identity.Home
	caller.Project = cmp.Or(p.plan.Workspace.Source, p.plan.Workspace.Path)
	caller.May = func(path, real string) error {
		if err := p.host.StaysWithin(path, real); err != nil {
			return err
		}
		return p.mayShow(real, real)
	}
	caller.Written = func(real string) bool {
		records, _, err := p.host.Store.List()
		return err != nil || slices.ContainsFunc(records, func(record store.Record) bool {
			return slices.ContainsFunc(record.Plan.Spec.Mounts, func(m forage.Mount) bool { return m.Writable && rootfs.Within(real, m.Source) })
		})
	}
	for _, text := range p.opts.Mounts {
		if source, ok := strings.CutSuffix(text, ":rw"); ok {
			source, _ = p.host.Caller.Abs(source[:max(0, strings.LastIndex(source, ":"))])
			caller.Hostile = append(caller.Hostile, workspace.Resolved(source))
		}
	}
	for _, w := range p.plan.Workspaces() {
		caller.Hostile = append(append(caller.Hostile, w.Path), origins(w)...)
	}
	return caller
}

// hostTools shows what the caller can run where that is outside the system's folders: the known
// kinds of tool folder on PATH, and, wherever they are, the command that will run, the template's
// agents, and jj for who works with it.
func (p *planner) hostTools(context.Context) error {
	spec := &p.plan.Spec
	if spec.Rootfs.Kind != forage.RootfsHost {
		return p.agentAlong()
	}
	var commands []string
	for _, agent := range p.chosen.Agents {
		commands = append(commands, agent.Command[0])
	}
	for _, k := range p.known {
		for _, server := range k.own.Servers {
			commands = append(commands, inject.Started(server))
		}
	}
	if p.usesJJ() {
		commands = append(commands, "jj")
	}
	slices.Sort(commands)
	tool, found, err := rootfs.Tools(slices.Compact(append([]string{spec.Command[0]}, commands...)), p.owner())
	if err != nil {
		return err
	}
	for _, mount := range tool.Mounts {
		if err := p.mayShow(mount.Source, mount.Source); err != nil {
			return err
		}
	}
	spec.Mounts, spec.Links = append(spec.Mounts, tool.Mounts...), append(spec.Links, tool.Links...)
	p.toolDirs, p.toolEnv, p.along = tool.Dirs, tool.Env, append(p.along, found...)
	return nil
}

// agentAlong finds the caller's own agent, for an image that lacks it.
func (p *planner) agentAlong() (err error) {
	spec := &p.plan.Spec
	if _, known := agent.Lookup(spec.Command[0]); !known || strings.Contains(spec.Command[0], "/") || len(spec.Init) > 0 {
		return nil // init commands may install it
	}
	if spec.Along, err = rootfs.Along(spec.Command[0], p.owner()); err != nil {
		return fmt.Errorf("taking %s along: %w", spec.Command[0], err)
	}
	for _, program := range spec.Along {
		for _, mount := range program.Mounts {
			if err := p.mayShow(mount.Source, mount.Source); err != nil {
				return err
			}
		}
	}
	return nil
}

// caches shows what the host's package managers have downloaded, each under a layer of the
// sandbox's own. Where something else is mounted, that counts.
func (p *planner) caches(context.Context) error {
	spec := &p.plan.Spec
	spec.Mounts = slices.DeleteFunc(spec.Mounts, func(m forage.Mount) bool { return m.Layered && p.whyNotShown(m) != "" }) // a tool's
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

// whyNotShown is why a folder of the caller's that was not asked for by name is left out; "" is no
// reason.
func (p *planner) whyNotShown(mount forage.Mount) string {
	if err := p.mayShow(mount.Source, mount.Source); err != nil {
		return err.Error()
	}
	for _, other := range p.plan.Spec.Mounts {
		if other != mount && !other.System && other.Target != p.plan.Spec.Identity.Home && (rootfs.Within(other.Target, mount.Target) || rootfs.Within(mount.Target, other.Target)) {
			return other.Source + " is mounted at " + other.Target
		}
	}
	return ""
}

// alongText says what becomes of one of them.
func alongText(f rootfs.Found) string {
	what := "PATH: " + f.Path
	if f.Name != "" {
		what = "cache of " + f.Name + ": " + f.Path
	}
	switch {
	case f.Shown == "":
		return what + " does not come along: " + f.Why
	case f.Shown == f.Path:
		return what + " comes along"
	}
	return what + " comes along, as " + f.Shown
}

// tools says which of the caller's tools and caches come along, where the workspace is the current
// folder. A home folder, or one that holds it, is never the workspace.
func (h *Host) Tools() (findings []runtime.Finding) {
	caller := h.toolOwner()
	if h.Caller.Dir != "" && !rootfs.Within(h.Caller.Home, h.Caller.Dir) {
		caller.Hostile, caller.Project = []string{h.Caller.Dir}, h.Caller.Dir
	}
	_, found, err := rootfs.Tools(nil, caller)
	if err != nil { // only a command can fail
		return findings
	}
	_, caches := rootfs.Caches(forage.CacheNames(), caller, forage.HomePath)
	for _, f := range append(found, caches...) {
		finding := runtime.Finding{Name: "PATH has " + f.Path, OK: f.Shown != "", Detail: f.Why}
		if f.Name != "" {
			finding.Name = "cache of " + f.Name
		}
		if f.Shown != "" && f.Shown != f.Path {
			finding.Detail = "inside: " + f.Shown
		}
		findings = append(findings, finding)
	}
	return findings
}
