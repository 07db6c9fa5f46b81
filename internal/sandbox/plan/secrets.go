package plan

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"forage"
	"forage/internal/config"
	"forage/internal/inject"
	"forage/internal/provider"
	"forage/internal/rootfs"
	"forage/internal/secrets"
	"forage/internal/supervisor"
	"forage/internal/term"
)

// boundSecret is a secret that the sandbox is to have.
type boundSecret struct {
	binding forage.Binding
	service provider.Service // zero where there is none
}

// secrets binds the secrets of the template and of its agents, and says what agents find
// of them inside.
func (p *planner) secrets(ctx context.Context) error {
	p.plan.SecretMode, p.plan.Traffic = p.chosen.SecretMode, p.chosen.Traffic
	p.plan.Terminal, p.plan.ForwardAuto, p.plan.SSHForward = p.chosen.Terminal, p.chosen.ForwardAuto, p.chosen.SSHForward
	var bound []boundSecret
	for _, name := range p.secretNames() {
		b, ok, err := p.bind(ctx, name)
		if err != nil {
			return err
		}
		if ok {
			bound = append(bound, b)
			p.plan.Secrets = append(p.plan.Secrets, b.binding)
		}
	}
	p.askForKey(p.agent())
	if p.plan.SecretMode == forage.SecretsWrapped {
		for _, b := range bound {
			p.note(`secretMode is "wrapper": whatever runs inside can read %s in %s, and send it to any host that the network lets through`, b.binding.Secret, forage.SecretsPath)
		}
	} else {
		p.plan.Network.Allow = p.host.narrowed(p.chosen.Name, p.plan.Network.Allow, p.plan.Secrets, p.opts.Allow)
	}
	if err := supervisor.CheckSecrets(p.plan); err != nil {
		return forage.WithHint(forage.Errorf(forage.ErrUsage, "%w", err), "leave one of them out of the template's secrets, or give them other hosts")
	}
	return p.contribute(bound)
}

// agents are the template's, in the order of their names.
func (p *planner) agents() []forage.Agent {
	var agents []forage.Agent
	for _, name := range slices.Sorted(maps.Keys(p.chosen.Agents)) {
		agents = append(agents, p.chosen.Agents[name])
	}
	return agents
}

// secretNames are those of the agents and those that the template lists, each once.
func (p *planner) secretNames() []string {
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, agent := range p.agents() {
		add(agent.Secret)
	}
	for _, name := range p.chosen.Secrets {
		add(name)
	}
	return names
}

// bind makes the binding of a secret; false says that the sandbox does without it.
func (p *planner) bind(ctx context.Context, name string) (boundSecret, bool, error) {
	secret, found, err := p.secret(name)
	if err != nil || !found {
		return boundSecret{}, false, err
	}
	_, configured := p.host.Config.Secrets[name]
	service := inject.ServiceOf(name, secret)
	if variable, where := p.explicit(inject.Variables(name, service, p.agents())); where != "" {
		p.note("%s sets %s inside: the secret %s is not used", where, variable, name)
		return boundSecret{}, false, nil
	}
	if target := p.coversLogin(secret); target != "" && !configured {
		p.note("what is mounted at %s is in the place of a login: the secret %s is not used", target, name)
		return boundSecret{}, false, nil
	} else if target != "" {
		return boundSecret{}, false, forage.WithHint(
			forage.Errorf(forage.ErrUsage, "secret %s is a login, whose file inside would be in what --mount shows at %s", name, target),
			"leave out that mount, or the secret")
	}
	binding, err := inject.Binding(name, secret, inject.Scope{
		Sandbox: p.plan.Name, Home: p.host.Caller.Home, Set: p.host.setHosts(ctx, hostileOf(p.plan)),
	})
	if err != nil {
		return boundSecret{}, false, err
	}
	// Refuses, or notes, what keeps a secret from being read; the value itself is not looked at.
	if err := p.apart(binding); err != nil {
		return boundSecret{}, false, err
	}
	source := binding.Source
	switch {
	case source.Login != nil && p.plan.SecretMode == forage.SecretsWrapped:
		return boundSecret{}, false, forage.WithHint(
			forage.Errorf(forage.ErrUsage, "secret %s is a login, which secretMode = \"wrapper\" can't hand over", binding.Secret),
			`use secretMode = "inject", or a key`)
	case source.Login != nil:
		if err := supervisor.CheckLogin(*source.Login); err != nil {
			return boundSecret{}, false, forage.WithHint(forage.Errorf(forage.ErrUsage, "secret %s: %w", binding.Secret, err), forage.Hint(err))
		}
	case source.File != "":
		info, err := os.Stat(source.File)
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a file", source.File)
		}
		if err != nil {
			p.note("the secret %s is not there now (%v): until it is, requests that need it are answered with 502", binding.Secret, err)
		}
	case source.Env != "":
		if value, _ := p.host.Caller.Getenv(source.Env); value == "" {
			p.note("%s", missingEnv(binding))
		}
	}
	for _, note := range secrets.Notes(source) {
		p.note("the secret %s: %s", binding.Secret, note)
	}

	return boundSecret{binding, service}, true, nil
}

// secret is the one of that name: as it is configured, else as it is found by itself. False says
// that the sandbox does without it.
func (p *planner) secret(name string) (config.Secret, bool, error) {
	if secret, ok := p.host.Config.Secrets[name]; ok {
		return secret, true, nil
	}
	if secret, ok := p.automatic(name); ok {
		return secret, true, nil
	}
	return config.Secret{}, false, p.unconfigured(name)
}

// coversLogin is the target of a mount that a login's file inside would be in; "" is none.
func (p *planner) coversLogin(secret config.Secret) string {
	own, ok := provider.ForLogin(secret.Login)
	if !ok {
		return ""
	}
	return p.mountOver(filepath.Join(p.plan.Spec.Identity.Home, own.LoginFile))
}

// mountOver is the target of a mount that a file inside would be in; "" is none.
func (p *planner) mountOver(file string) string {
	for _, mount := range p.plan.Spec.Mounts {
		if rootfs.Within(file, mount.Target) {
			return mount.Target
		}
	}
	return ""
}

// automatic is the secret that an agent names and the configuration lacks, where the caller has it.
// With wrappers, whose agents get values, a login is none.
func (p *planner) automatic(name string) (config.Secret, bool) {
	if slices.Contains(p.chosen.Secrets, name) {
		return config.Secret{}, false
	}
	secret, ok := inject.Automatic(name, p.host.Caller.Home, p.host.Caller.Getenv)
	if !ok || secret.Login == "" {
		return secret, ok
	}
	if p.plan.SecretMode == forage.SecretsWrapped {
		return config.Secret{}, false
	}
	// The file may be there for something else, or from a login that has ended.
	return secret, supervisor.CheckLogin(forage.Login{Kind: secret.Login, File: secret.LoginFile}) == nil
}

// unconfigured is the error for a secret that is neither configured nor one that would be
// found by itself if the caller had it.
func (p *planner) unconfigured(name string) error {
	_, known := provider.Lookup(name)
	if known && !slices.Contains(p.chosen.Secrets, name) {
		return nil
	}
	hint := "add [secrets." + name + "] to your configuration"
	if near := term.Nearest(name, slices.Sorted(maps.Keys(p.host.Config.Secrets))); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return forage.WithHint(forage.Errorf(forage.ErrUsage, "template %q names the secret %q, which is not configured", p.chosen.Name, name), hint)
}

// explicit is the first of variables that a flag or the template gives a value, and which of the
// two.
func (p *planner) explicit(variables []string) (variable, where string) {
	for _, variable := range variables {
		for _, entry := range p.opts.Env {
			if name, _, _ := strings.Cut(entry, "="); name == variable {
				return variable, "--env"
			}
		}
		if _, ok := p.chosen.Env[variable]; ok {
			return variable, fmt.Sprintf("template %q", p.chosen.Name)
		}
	}
	return "", ""
}

// missingEnv says what comes of a secret whose variable is not set.
func missingEnv(b forage.Binding) string {
	return fmt.Sprintf("%s is not set in your environment: requests that need the secret %s will be answered with 502", b.Source.Env, b.Secret)
}

// askForKey says which key the agent looks for when it was not given one.
func (p *planner) askForKey(agent forage.Agent) {
	key := agent.AuthEnvVar
	if key == "" || len(agent.Command) == 0 {
		return
	}
	isIts := func(b forage.Binding) bool { return b.Secret == agent.Secret }
	if slices.ContainsFunc(p.plan.Secrets, isIts) {
		return
	}
	if _, where := p.explicit([]string{key}); where == "" {
		p.note("%s looks for its API key in %s, which it was not given: set it in your environment, or log in with %s on the host, and the sandbox can use it without seeing it",
			agent.Command[0], key, agent.Command[0])
	}
}

// contribute puts what agents find of the secrets into the plan.
func (p *planner) contribute(bound []boundSecret) error {
	var parts []inject.Contribution
	for _, b := range bound {
		if p.plan.SecretMode == forage.SecretsWrapped {
			parts = append(parts, inject.Wrappers(b.binding, p.agents()))
			continue
		}
		part, err := inject.Placeholders(b.binding, b.service, p.agents())
		if err != nil {
			return err
		}
		parts = append(parts, part, inject.Git(b.binding))
	}
	parts = append(parts, p.agentParts(bound)...)
	merged, err := inject.Merge(parts...)
	if err != nil {
		return err
	}
	for _, k := range p.known {
		for _, name := range k.known.Without {
			delete(merged.Env, name)
		}
	}
	p.inside = merged
	p.plan.Spec.Files = append(p.plan.Spec.Files, merged.Files...)
	command := p.plan.Spec.Command
	wrapped := func(f forage.File) bool { return f.Path == inject.WrapperOf(command[0]) }
	if filepath.IsAbs(command[0]) && slices.ContainsFunc(merged.Files, wrapped) {
		p.plan.Spec.Command = append([]string{inject.WrapperOf(command[0])}, command[1:]...)
	}
	return nil
}

// secretEnv are the values of the caller's variables that the plan's secrets are read
// with. They are handed to the supervisor, and stay in its memory.
func (h *Host) SecretEnv(plan forage.Plan) map[string]string {
	values := make(map[string]string)
	for _, name := range supervisor.SecretEnv(plan) {
		if value, ok := h.Caller.Getenv(name); ok {
			values[name] = value
		}
	}
	return values
}

// missingSecrets says what a sandbox that is started again will do without.
func (h *Host) MissingSecrets(plan forage.Plan) []string {
	var notes []string
	for _, b := range plan.Secrets {
		if value, _ := h.Caller.Getenv(b.Source.Env); b.Source.Env != "" && value == "" {
			notes = append(notes, missingEnv(b))
		}
	}
	return notes
}

// narrowed is allow without the hosts that a built-in template allows for another way to log in
// to a service than the one that is bound: nothing would keep an agent from using an
// account of its own there. What a file says, or keep, stays.
func (h *Host) narrowed(template string, allow []string, bindings []forage.Binding, keep []string) []string {
	builtin := config.BuiltinHosts(template)
	if !slices.Equal(h.Config.Templates[template].Network.Allow, builtin) {
		return allow
	}
	var needless []string
	for _, b := range bindings {
		service, _ := provider.Lookup(b.Secret)
		bound := hostsOf(b.Uses)
		for _, host := range hostsOf(slices.Concat(service.Uses, service.LoginUses)) {
			if slices.Contains(builtin, host) && !slices.Contains(bound, host) && !slices.Contains(keep, host) {
				needless = append(needless, host)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(allow), func(host string) bool { return slices.Contains(needless, host) })
}

func hostsOf(uses []forage.SecretUse) []string {
	var hosts []string
	for _, use := range uses {
		hosts = append(hosts, use.Hosts...)
	}
	return hosts
}

// apart refuses a secret whose source the sandbox sees, where anything inside could read
// it, or put something else in its place; and a command that it could change, which
// would run on the host.
func (p *planner) apart(b forage.Binding) error {
	file := b.Source.File
	if b.Source.Login != nil {
		file = b.Source.Login.File
	}
	for _, mount := range p.shown() {
		if file != "" && leadsInto(file, mount.Source) {
			return forage.WithHint(
				forage.Errorf(forage.ErrUsage, "secret %s: %s is in what the sandbox sees at %s", b.Secret, file, mount.Target),
				"keep it outside of the workspace and of what is mounted")
		}
		for _, word := range b.Source.Command {
			if mount.Writable && filepath.IsAbs(word) && leadsInto(word, mount.Source) {
				return forage.WithHint(
					forage.Errorf(forage.ErrUsage, "secret %s: its command runs on the host, with %s, which the sandbox can change at %s", b.Secret, word, mount.Target),
					"keep it outside of the workspace and of what is mounted")
			}
		}
	}
	return nil
}
