package plan

import (
	"cmp"
	"context"
	"errors"
	"maps"

	"path"
	"path/filepath"
	"slices"
	"strings"

	"forage"
	"forage/internal/agent"
	"forage/internal/inject"
	"forage/internal/rootfs"
)

// knownAgent is an agent of the plan that Forage has a file of data about.
type knownAgent struct {
	forage.Agent // as the template has it
	known        agent.Agent
	own          inject.Own // what comes in of its settings folder on the host
}

// agentConfig finds the known agents among the template's and behind the command, and reads what of
// their settings folders comes in.
func (p *planner) agentConfig(context.Context) error {
	add := func(known agent.Agent, a forage.Agent) error {
		if slices.ContainsFunc(p.known, func(have knownAgent) bool { return have.known.Name == known.Name }) {
			return nil
		}
		k := knownAgent{Agent: a, known: known}
		// Refuses what the agent has no means for.
		if p := k.Permissions; p != nil && k.known.Rules == "" && len(p.Allow)+len(p.Deny) > 0 {
			return forage.WithHint(
				forage.Errorf(forage.ErrUnsupported, "%s has no setting for permissions.allow and permissions.deny", k.known.Name),
				"use skipAll alone, and say in the template's rules what the network lets through")
		}
		if k.HostConfigDir != "" && len(k.known.Config.Copy) == 0 {
			return forage.WithHint(
				forage.Errorf(forage.ErrUnsupported, "%s has no settings folder of which something could come in", k.known.Name), "leave out hostConfigDir")
		}
		if k.ContainerConfigDir != "" && k.known.Config.Variable == "" {
			return forage.WithHint(
				forage.Errorf(forage.ErrUnsupported, "%s looks for its settings in %s alone", k.known.Name, k.known.Config.Inside), "leave out containerConfigDir")
		}

		if a.HostConfigDir != "" {
			if err := p.readOwn(&k); err != nil {
				return err
			}
		}
		p.known = append(p.known, k)
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.chosen.Agents)) {
		a := p.chosen.Agents[name]
		known, ok := agent.Lookup(a.Command[0])
		if !ok {
			known, ok = agent.Lookup(name)
		}
		if !ok {
			continue
		}
		if err := add(known, a); err != nil {
			return err
		}
	}
	if known, ok := agent.Lookup(p.plan.Spec.Command[0]); ok {
		return add(known, forage.Agent{Command: known.Command, Secret: known.Secret, Permissions: &forage.Permissions{SkipAll: true}})
	}
	return nil
}

// readOwn reads an agent's settings folder on the host. What the configuration forbids to be shown
// is not copied either.
func (p *planner) readOwn(k *knownAgent) error {
	dir, err := filepath.EvalSymlinks(k.HostConfigDir)
	if err == nil {
		if err := p.forbid.CheckMount(dir); err != nil {
			return err
		}
		if err := p.host.StaysWithin(k.HostConfigDir, dir); err != nil {
			return err
		}
	}
	if k.own, err = inject.OwnSettings(k.HostConfigDir, k.known, k.Hooks); err != nil {
		return err
	}
	for _, note := range k.own.Notes {
		p.note("%s: of %s, %s", k.known.Name, k.HostConfigDir, note)
	}
	return nil
}

// agentParts are the files and variables with which the plan's agents work without questions.
func (p *planner) agentParts(bound []boundSecret) []inject.Contribution {
	var parts []inject.Contribution
	for _, k := range p.known {
		c := inject.Contribution{From: "the agent " + k.known.Name, Env: maps.Clone(k.known.Quiet)}
		parts = append(parts, c)
		if k.known.Settings == nil {
			continue
		}
		in := p.insideOf(k, bound)
		settings := k.known.Settings(in)
		c.Env = map[string]string{}
		if k.ContainerConfigDir != "" {
			c.Env[k.known.Config.Variable] = in.Dir
		}
		maps.Copy(c.Env, settings.Env)
		c.Files = settings.Files
		for _, file := range k.own.Files {
			file.Path, file.Owned = path.Join(in.Dir, file.Path), !k.ConfigReadOnly
			if file.Owned {
				file.Mode |= 0o200
			}
			c.Files = append(c.Files, file)
		}
		c.Files = slices.DeleteFunc(c.Files, func(f forage.File) bool { return p.mountOver(f.Path) != "" })
		parts = append(parts, c)
		if command := p.plan.Spec.Command; path.Base(command[0]) == k.known.Name {
			p.plan.Spec.Command = slices.Concat(command[:1], settings.Args, command[1:])
		}
	}
	return parts
}

// insideOf is what an agent's settings are made from.
func (p *planner) insideOf(k knownAgent, bound []boundSecret) agent.Inside {
	home := p.plan.Spec.Identity.Home
	in := agent.Inside{
		Home: home, Work: p.plan.Spec.Dir, Dir: k.ContainerConfigDir, ReadOnly: k.ConfigReadOnly,
		Key: p.keyOf(k, bound), Own: k.own.Settings, Servers: p.serversInside(k),
	}
	in.Dir = cmp.Or(in.Dir, path.Join(home, strings.TrimPrefix(k.known.Config.Inside, "~/")))
	if k.Permissions != nil {
		in.Permissions = *k.Permissions
	}
	if k.known.Name == "claude" {
		in.Template = p.chosen.ClaudeSettings
	}
	return in
}

// keyOf is what an agent finds in the variable of its key, as far as that is known; "" where it has
// none, or a login.
func (p *planner) keyOf(k knownAgent, bound []boundSecret) string {
	for _, b := range bound {
		if b.binding.Secret == k.Secret && b.binding.Source.Login == nil && p.plan.SecretMode != forage.SecretsWrapped {
			return b.binding.Placeholder
		}
	}
	for _, entry := range slices.Backward(p.opts.Env) {
		if name, value, _ := strings.Cut(entry, "="); name == k.known.AuthEnvVar {
			return value
		}
	}
	return p.chosen.Env[k.known.AuthEnvVar]
}

// serversInside are the MCP servers whose command is inside.
func (p *planner) serversInside(k knownAgent) map[string]any {
	servers, spec := maps.Clone(k.own.Servers), p.plan.Spec
	dirs := append(slices.Clone(p.toolDirs), "/usr/local/bin", "/usr/bin")
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		command := inject.Started(servers[name])
		if spec.Rootfs.Kind != forage.RootfsHost || !rootfs.Visible(spec, command, dirs) { // of an image it is not known
			p.note("%s: the MCP server %s stays outside: its command %s is not inside", k.known.Name, name, command)
			delete(servers, name)
		}
	}
	return servers
}

// errNotInstalled is behind the error for an agent that the caller does not have.
var errNotInstalled = errors.New("not installed")

// installed notes an agent that the caller doesn't have: nothing is made for it then. For an image
// the supervisor asks, which has unpacked it.
func (p *planner) installed(context.Context) error {
	command := p.plan.Spec.Command[0]
	facts, ok := agent.Lookup(command)
	if !ok || p.plan.Spec.Rootfs.Kind != forage.RootfsHost || strings.Contains(command, "/") || len(p.plan.Spec.Init) > 0 {
		return nil // init commands may install it
	}
	if rootfs.Find(command, p.owner()) != "" {
		return nil
	}
	p.missing = forage.WithHint(
		forage.Errorf(forage.ErrStart, "%s is %w: there is no %s on your PATH", facts.Name, errNotInstalled, command),
		facts.Install)
	return nil
}
