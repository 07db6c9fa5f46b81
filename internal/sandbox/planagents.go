package sandbox

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"forage"
	"forage/internal/agent"
	"forage/internal/inject"
	"forage/internal/rootfs"
)

// knownAgent is an agent of the registry with what the template says of it.
type knownAgent struct {
	agent.Agent
	forage.Permissions
	secret string
}

// knownAgents are the template's agents that the registry knows, and the command's.
func (p *planner) knownAgents() []knownAgent {
	var known []knownAgent
	for _, a := range p.agents() {
		facts, ok := agent.Lookup(firstWord(a.Command))
		if !ok {
			continue
		}
		k := knownAgent{Agent: facts, secret: a.Secret}
		if a.Permissions != nil {
			k.Permissions = *a.Permissions
		}
		known = append(known, k)
	}
	facts, ok := agent.Lookup(firstWord(p.plan.Spec.Command))
	if ok && !slices.ContainsFunc(known, func(k knownAgent) bool { return k.Name == facts.Name }) {
		known = append(known, knownAgent{facts, forage.Permissions{SkipAll: true}, facts.Secret})
	}
	return known
}

func firstWord(command []string) string {
	if len(command) == 0 {
		return ""
	}
	return command[0]
}

// installed refuses an agent that the caller doesn't have, before anything is made.
func (p *planner) installed(context.Context) error {
	command := p.plan.Spec.Command[0]
	facts, ok := agent.Lookup(command)
	if !ok || p.plan.Spec.Rootfs.Kind != forage.RootfsHost || strings.Contains(command, "/") {
		return nil
	}
	if rootfs.Find(command, p.owner()) != "" {
		return nil
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrStart, "%s is not installed: there is no %s on your PATH", facts.Name, command),
		facts.Install)
}

// agentSettings are what the agents need to work without questions. Nothing of it is on the host.
func (p *planner) agentSettings() ([]inject.Contribution, error) {
	var parts []inject.Contribution
	for _, known := range p.knownAgents() {
		if known.Rules == "" && len(known.Allow)+len(known.Deny) > 0 {
			return nil, forage.WithHint(
				forage.Errorf(forage.ErrUnsupported, "%s has no setting for permissions.allow and permissions.deny", known.Name),
				"use skipAll alone, and say in the template's rules what the network lets through")
		}
		inside := agent.Inside{Home: p.plan.Spec.Identity.Home, Permissions: known.Permissions}
		login := false
		for _, b := range p.plan.Secrets {
			if b.Secret != known.secret || p.plan.SecretMode == forage.SecretsWrapped {
				continue
			}
			if login = b.Source.Login != nil; !login {
				inside.Key = b.Placeholder
			}
		}
		settings := known.Settings(inside)
		part := inject.Contribution{From: "agent " + known.Name, Env: maps.Clone(known.Quiet)}
		for _, file := range settings.Files {
			if rest, ok := strings.CutPrefix(file.Path, "~/"); ok {
				file.Path = path.Join(inside.Home, rest)
			}
			if login && file.Path == path.Join(inside.Home, ".claude.json") {
				continue // a login has this file of its own
			}
			part.Files = append(part.Files, file)
		}
		if part.Env == nil {
			part.Env = map[string]string{}
		}
		maps.Copy(part.Env, settings.Env)
		parts = append(parts, p.notMounted(part))
		if command := p.plan.Spec.Command; path.Base(command[0]) == known.Name {
			p.plan.Spec.Command = slices.Insert(slices.Clone(command), 1, settings.Args...)
		}
	}
	return parts, nil
}
