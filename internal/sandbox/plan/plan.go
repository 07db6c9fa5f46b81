// Package plan decides everything about one sandbox: from flags, the configuration and what it sees
// of the host, one forage.Plan. It changes nothing, and starts nothing of the sandbox.
package plan

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"forage"
	"forage/internal/config"
	"forage/internal/hostset"
	"forage/internal/inject"
	"forage/internal/rootfs"
	"forage/internal/sshkeys"
	"forage/internal/supervisor"
	"forage/internal/term"
)

// Made is a plan, with what the user should know of it.
type Made struct {
	Plan   forage.Plan
	Notes  []string
	Detail []string // what of the caller's tools and caches comes along, and what does not and why
	// Missing says that the agent is not there; nil is none. Nothing can be started then.
	Missing error
}

// Plan decides everything about one sandbox from configuration and opts, and changes nothing.
func (h *Host) Plan(ctx context.Context, opts Options) (Made, error) {
	p := &planner{host: h, opts: opts}
	p.git = sync.OnceValue(func() GitIdentity { return CallersGit(ctx, h.Caller) })
	go p.git() // a process of its own: meanwhile the rest is planned
	for _, step := range []func(context.Context) error{
		p.name, p.template, p.forbidden, p.workspaces, p.identity, p.network, p.command,
		p.home, p.rootfs, p.installed, p.agentConfig, p.hostTools, p.mounts, p.caches, p.secrets, p.skills, p.environment, p.keys, p.runtime, p.gitConfig, p.otherWriters,
		p.propose,
	} {
		if err := step(ctx); err != nil {
			return Made{}, err
		}
	}
	made := Made{Plan: p.plan, Notes: p.notes, Missing: p.missing}
	for _, found := range p.along {
		made.Detail = append(made.Detail, alongText(found))
	}
	return made, nil
}

// planner makes one plan, step by step.
type planner struct {
	host     *Host
	opts     Options
	chosen   forage.Template // tightened by the project's file
	forbid   config.Forbid
	parts    []forage.Part // of the workspace, as they were asked for, the main one first
	plan     forage.Plan
	notes    []string
	sets     []hostset.Set       // that were found for the network
	along    []rootfs.Found      // what of the caller's tools and caches is shown, and what is not
	toolDirs []string            // folders of host tools, for PATH
	toolEnv  map[string]string   // what host tools need
	inside   inject.Contribution // what agents find of the secrets
	git      func() GitIdentity  // the caller's own
	known    []knownAgent        // the agents that Forage knows
	missing  error               // the agent that is not there; nil is none
}

// RunName makes up the name of a run.
func RunName() string { return "run-" + strings.ToLower(rand.Text()[:8]) }

func (p *planner) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

func (p *planner) name(context.Context) error {
	if p.opts.Name == "" && p.opts.Ephemeral {
		p.opts.Name = RunName()
	}
	if err := forage.CheckName(p.opts.Name); err != nil {
		return err
	}
	p.plan.Name, p.plan.Spec.Name, p.plan.Ephemeral = p.opts.Name, p.opts.Name, p.opts.Ephemeral && !p.opts.Keep
	return nil
}

// template chooses the template (the one asked for, the one named like the command, or the default)
// and lets the project's own file tighten it.
func (p *planner) template(context.Context) error {
	h := p.host
	name := cmp.Or(p.opts.Template, h.Config.DefaultTemplate)
	if len(p.opts.Command) > 0 && p.opts.Template == "" {
		if of := filepath.Base(p.opts.Command[0]); h.Config.Templates[of].Name != "" {
			name = of
		}
	}
	template, err := h.template(name)
	if err != nil {
		return err
	}
	if p.parts, err = p.askedParts(template); err != nil {
		return err
	}
	project, err := projectOf(p.parts[0])
	if err != nil {
		return err
	}
	if p.chosen, err = config.Tighten(template, project); err != nil {
		return err
	}
	p.forbid = h.Config.Forbid.And(project.Forbid)
	if p.opts.Devcontainer {
		if err := p.devcontainer(); err != nil {
			return err
		}
	}
	if len(p.chosen.ExtraPackages) > 0 {
		p.note("template %q names extraPackages, which the NixOS module provides: elsewhere they must be installed in the root filesystem", name)
	}
	p.plan.Template = name
	p.plan.Facts = h.Config.Network
	p.plan.Spec.Limits, p.plan.Spec.Security = p.chosen.Limits, p.chosen.Security
	p.plan.Spec.Init = p.chosen.Init
	return nil
}

// template is the template of that name, if this version can enforce it.
func (h *Host) template(name string) (forage.Template, error) {
	template, ok := h.Config.Templates[name]
	if !ok {
		hint := "`forage-ctl templates` lists them"
		if near := term.Nearest(name, slices.Sorted(maps.Keys(h.Config.Templates))); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return template, forage.WithHint(forage.Errorf(forage.ErrTemplateNotFound, "no template named %q", name), hint)
	}
	if uses := h.Config.Unsupported[name]; len(uses) > 0 {
		return template, forage.WithHint(
			forage.Errorf(forage.ErrUnsupported, "template %q asks for what this version can't enforce: %v", name, uses[0]),
			"remove that key from the template")
	}
	return template, nil
}

// forbidden refuses the flags that the configuration or the project forbids.
func (p *planner) forbidden(context.Context) error {
	for _, flag := range []struct {
		name string
		used bool
	}{
		{"template", p.opts.Template != ""},
		{"image", p.opts.Image != "" || p.opts.Devcontainer},
		{"runtime", p.opts.Runtime != ""},
		{"network", p.opts.Network != ""},
		{"allow", len(p.opts.Allow) > 0},
		{"mount", len(p.opts.Mounts) > 0 || slices.ContainsFunc(p.opts.Volumes, isPath)},
		{"volume", len(p.opts.Volumes) > 0},
		{"env", len(p.opts.Env) > 0},
		{"ssh-key", len(p.opts.SSHKeys) > 0},
		{"git-worktree", p.opts.GitWorktree != ""},
		{"repo", p.opts.Repo != ""},
		{"clone", p.opts.Clone != ""},
		{"branch", p.opts.Branch != ""},
	} {
		if !flag.used {
			continue
		}
		if err := p.forbid.CheckFlag(flag.name); err != nil {
			return err
		}
	}
	return nil
}

// command is what was asked for, else the template's agent, else a shell.
func (p *planner) command(context.Context) error {
	spec := &p.plan.Spec
	spec.Session, spec.Dir = !p.plan.Ephemeral, forage.WorkspacePath
	spec.Command = slices.Clone(p.opts.Command)
	if len(spec.Command) == 0 {
		spec.Command = slices.Clone(p.agent().Command)
	}
	if len(spec.Command) == 0 {
		return forage.WithHint(
			forage.Errorf(forage.ErrUsage, "template %q has no agent and no command was given", p.chosen.Name),
			"put a command after --")
	}
	return nil
}

// agent is the template's: the one of its name, or the first by name.
func (p *planner) agent() forage.Agent {
	agent, named := p.chosen.Agents[p.chosen.Name]
	if all := p.agents(); !named && len(all) > 0 {
		return all[0]
	}
	return agent
}

// runtime chooses the runtime and asks whether it can enforce all of the plan.
func (p *planner) runtime(context.Context) error {
	h := p.host
	name := cmp.Or(p.opts.Runtime, p.chosen.Runtime)
	if name == "" {
		name, _ = h.Runtimes.Choose(supervisor.ThisHost(), p.forbid.CheckRuntime)
	}
	if err := p.forbid.CheckRuntime(name); err != nil {
		return err
	}
	rt, err := h.Runtimes.New(name)
	if err != nil {
		return err
	}
	p.plan.Runtime = name
	return rt.Supports(p.plan.Spec)
}

// keys are the SSH keys that may log in.
func (p *planner) keys(context.Context) error {
	for _, line := range p.host.Config.AuthorizedKeys {
		key, err := sshkeys.ParseAuthorized(line)
		if err != nil {
			return err
		}
		if !key.ReadOnly && key.May(p.opts.Name) { // who may only look does so through the gateway
			p.plan.AuthorizedKeys = append(p.plan.AuthorizedKeys, sshkeys.Line(key.Public))
		}
	}
	for _, path := range p.opts.SSHKeys {
		lines, err := sshkeys.ReadPublic(path)
		if err != nil {
			return err
		}
		p.plan.AuthorizedKeys = append(p.plan.AuthorizedKeys, lines...)
	}
	return nil
}
