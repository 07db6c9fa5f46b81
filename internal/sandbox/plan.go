package sandbox

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"forage"
	"forage/internal/config"
	"forage/internal/hostset"
	"forage/internal/inject"
	"forage/internal/policy"
	"forage/internal/rootfs"
	"forage/internal/sshkeys"
	"forage/internal/term"
)

// Plan decides everything about one sandbox from configuration and opts, and
// changes nothing. Notes are what the user should know before it starts.
func (s *Service) Plan(ctx context.Context, opts Options) (forage.Plan, []string, error) {
	p, err := s.planned(ctx, opts)
	if err != nil {
		return forage.Plan{}, nil, err
	}
	if p.missing != nil {
		p.note("%v: %s", p.missing, forage.Hint(p.missing))
	}
	return p.plan, p.notes, nil
}

// planned is Plan, with what led to it.
func (s *Service) planned(ctx context.Context, opts Options) (*planner, error) {
	p := &planner{service: s, opts: opts}
	p.git = sync.OnceValue(func() gitIdentity { return callersGit(ctx, s.Caller) })
	go p.git() // a process of its own: meanwhile the rest is planned
	for _, step := range []func(context.Context) error{
		p.name, p.template, p.forbidden, p.workspaces, p.identity, p.network, p.command,
		p.home, p.rootfs, p.installed, p.agentConfig, p.hostTools, p.mounts, p.caches, p.secrets, p.skills, p.environment, p.keys, p.runtime, p.gitConfig, p.otherWriters,
		p.propose,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// planner makes one plan, step by step.
type planner struct {
	service  *Service
	opts     Options
	chosen   forage.Template // tightened by the project's file
	forbid   config.Forbid
	parts    []forage.Part // of the workspace, as they were asked for, the main one first
	against  time.Time     // when the sandbox of that name was made that this plan knows of; zero: there is none
	plan     forage.Plan
	notes    []string
	sets     []hostset.Set       // that were found for the network
	along    []rootfs.Found      // what of the caller's tools and caches is shown, and what is not
	toolDirs []string            // folders of host tools, for PATH
	toolEnv  map[string]string   // what host tools need
	inside   inject.Contribution // what agents find of the secrets
	git      func() gitIdentity  // the caller's own
	known    []knownAgent        // the agents that Forage knows
	missing  error               // the agent that is not there; nil is none
}

func (p *planner) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

func (p *planner) name(context.Context) error {
	if p.opts.Name == "" && p.opts.Ephemeral {
		p.opts.Name = "run-" + strings.ToLower(rand.Text()[:8])
	}
	if err := forage.CheckName(p.opts.Name); err != nil {
		return err
	}
	p.plan.Name, p.plan.Spec.Name, p.plan.Ephemeral = p.opts.Name, p.opts.Name, p.opts.Ephemeral && !p.opts.Keep
	return nil
}

// template chooses the template and lets the project's own file tighten it.
func (p *planner) template(context.Context) error {
	s := p.service
	name := p.templateName()
	template, err := s.template(name)
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
	p.forbid = s.Config.Forbid.And(project.Forbid)
	if len(p.chosen.ExtraPackages) > 0 {
		p.note("template %q names extraPackages, which the NixOS module provides: elsewhere they must be installed in the root filesystem", name)
	}
	p.plan.Template = name
	p.plan.Facts = s.Config.Network
	p.plan.Spec.Limits, p.plan.Spec.Security = p.chosen.Limits, p.chosen.Security
	p.plan.Spec.Init = p.chosen.Init
	return nil
}

// template is the template of that name, if this version can enforce it.
func (s *Service) template(name string) (forage.Template, error) {
	template, ok := s.Config.Templates[name]
	if !ok {
		hint := "`forage-ctl templates` lists them"
		if near := term.Nearest(name, slices.Sorted(maps.Keys(s.Config.Templates))); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return template, forage.WithHint(forage.Errorf(forage.ErrTemplateNotFound, "no template named %q", name), hint)
	}
	if uses := s.Config.Unsupported[name]; len(uses) > 0 {
		return template, forage.WithHint(
			forage.Errorf(forage.ErrUnsupported, "template %q asks for what this version can't enforce: %v", name, uses[0]),
			"remove that key from the template")
	}
	return template, nil
}

// templateName is the template asked for, the one named like the command, or the default.
func (p *planner) templateName() string {
	if p.opts.Template != "" {
		return p.opts.Template
	}
	if len(p.opts.Command) > 0 {
		name := filepath.Base(p.opts.Command[0])
		if _, ok := p.service.Config.Templates[name]; ok {
			return name
		}
	}
	return p.service.Config.DefaultTemplate
}

// forbidden refuses the flags that the configuration or the project forbids.
func (p *planner) forbidden(context.Context) error {
	for _, flag := range []struct {
		name string
		used bool
	}{
		{"template", p.opts.Template != ""},
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

// network is the template's policy with what the flags say.
func (p *planner) network(ctx context.Context) error {
	network := p.chosen.Network
	if p.opts.Network != "" {
		network.Mode = forage.NetworkMode(p.opts.Network)
	}
	if network.Mode == "" {
		network.Mode = forage.NetworkNone
	}
	network.Allow, network.Rules = slices.Clone(network.Allow), slices.Clone(network.Rules)
	network.Monitor = network.Monitor || p.opts.Monitor
	for _, host := range p.opts.Allow {
		if !slices.Contains(network.Allow, host) {
			network.Allow = append(network.Allow, host)
		}
	}
	if network.Mode != forage.NetworkNone {
		if err := p.findSets(ctx, &network); err != nil {
			return err
		}
	}
	if _, err := policy.Compile(network); err != nil {
		return forage.Errorf(forage.ErrUsage, "%w", err)
	}
	if len(p.opts.Allow) > 0 && network.Mode == forage.NetworkNone {
		return forage.WithHint(forage.Errorf(forage.ErrUsage, "--allow has no effect while the network is none"), "add --network restricted")
	}
	p.plan.Network, p.plan.Spec.Network = network, network.Mode
	return checkNetwork(p.forbid, network)
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
	s := p.service
	name := p.opts.Runtime
	if name == "" {
		name = p.chosen.Runtime
	}
	if name == "" {
		name = s.Runtimes.Default()
	}
	if err := p.forbid.CheckRuntime(name); err != nil {
		return err
	}
	rt, err := s.Runtimes.New(name)
	if err != nil {
		return err
	}
	p.plan.Runtime = name
	if layered := func(m forage.Mount) bool { return m.Layered }; slices.ContainsFunc(p.plan.Spec.Mounts, layered) && !rt.Info().Capabilities.LayeredMounts {
		return forage.WithHint(forage.Errorf(forage.ErrUnsupported, "%s can't put a layer over the host's caches and toolchains", name), "choose another runtime")
	}
	return rt.Supports(p.plan.Spec)
}

// keys are the SSH keys that may log in.
func (p *planner) keys(context.Context) error {
	p.plan.AuthorizedKeys = slices.Clone(p.service.Config.AuthorizedKeys)
	for _, path := range p.opts.SSHKeys {
		lines, err := sshkeys.ReadPublic(path)
		if err != nil {
			return err
		}
		p.plan.AuthorizedKeys = append(p.plan.AuthorizedKeys, lines...)
	}
	return nil
}
