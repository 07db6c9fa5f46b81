package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"forage"
)

// template applies what the files say about one template, over the built-in of
// that name or an empty one.
func (v converter) template(name string, raw rawTemplate) {
	t, ok := v.config.Templates[name]
	if !ok {
		v.templateName(name)
		t = forage.Template{
			Name:    name,
			Rootfs:  forage.Rootfs{Kind: forage.RootfsHost},
			Network: forage.Network{Mode: forage.NetworkRestricted},
			Caches:  forage.CacheNames(),
		}
	}
	at := func(path ...any) []any { return append([]any{"templates", name}, path...) }
	setText(&t.Description, raw.Description)
	if raw.Runtime != nil {
		t.Runtime = *raw.Runtime
		v.check(checkRuntime(t.Runtime), at("runtime")...)
	}
	if raw.Rootfs != nil {
		var err error
		base := filepath.Dir(v.root.at(at("rootfs")...).pos.file)
		t.Rootfs, err = parseRootfs(*raw.Rootfs, base, v.home)
		if v.check(err, at("rootfs")...) && t.Rootfs.Ref != "" {
			v.means(string(t.Rootfs.Kind)+":"+t.Rootfs.Ref, at("rootfs")...)
		}
	}
	if raw.Network != nil {
		var err error
		t.Network.Mode, err = checkMode(*raw.Network)
		v.check(err, at("network")...)
	}
	if raw.AllowedHosts != nil {
		t.Network.Allow = slices.Clone(raw.AllowedHosts)
		v.each(raw.AllowedHosts, checkHost, at("allowedHosts"))
	}
	setBool(&t.ReadOnlyWorkspace, raw.ReadOnlyWorkspace)
	if raw.Home != nil {
		t.EphemeralHome = *raw.Home == ephemeralHome
		v.check(checkHome(*raw.Home), at("home")...)
	}
	if raw.Protect != nil {
		t.Unprotected = !*raw.Protect
	}
	if raw.Caches != nil {
		t.Caches = slices.Clone(*raw.Caches)
		v.each(t.Caches, checkCache, at("caches"))
	}
	setBool(&t.SamePath, raw.SamePath)
	setBool(&t.Security.NestedNamespaces, raw.NestedNamespaces)
	v.limits(&t.Limits, raw.ResourceLimits, at("resourceLimits"))
	v.volumes(&t, raw.Volumes, at("volumes"))
	v.environment(&t, raw.Env, at("env"))
	setList(&t.Init, raw.InitCommands)
	v.each(raw.InitCommands, checkCommand, at("initCommands"))
	setList(&t.ExtraPackages, raw.ExtraPackages)
	v.each(raw.ExtraPackages, checkCommand, at("extraPackages"))
	if s := raw.Skills; s != nil {
		setBool(&t.Skills.JJ, s.JJ)
		setBool(&t.Skills.Nix, s.Nix)
		setText(&t.Skills.Custom, s.Custom)
	}
	v.agents(&t, raw.Agents, at("agents"))
	if raw.ClaudeSettings != nil {
		t.ClaudeSettings = raw.ClaudeSettings
	}
	if raw.Rules != nil {
		t.Network.Rules = v.rules(raw.Rules, at("rules"))
	}
	setBool(&t.Network.Monitor, raw.Monitor)
	v.traffic(&t.Traffic, raw.Traffic, at("traffic"))
	v.secrets(&t, raw, at)
	t.Parts = v.parts(raw.Workspace, at("workspace"))
	v.config.Templates[name] = t
	if uses := v.unsupported(raw, at); len(uses) > 0 {
		v.config.Unsupported[name] = uses
	}
}

// volumes adds named volumes to a template's.
func (v converter) volumes(t *forage.Template, raw map[string]string, at []any) {
	volumes := maps.Clone(t.Volumes)
	for name, target := range raw {
		key := append(slices.Clone(at), name)
		if forage.CheckName(name) != nil {
			v.wrong(key, "expected a name of 1 to 63 of a-z, 0-9 and -")
		}
		v.check(forage.CheckTarget(target), key...)
		if volumes == nil {
			volumes = map[string]string{}
		}
		volumes[name] = target
	}
	t.Volumes = volumes
}

// The values of home.
const (
	keptHome      = "kept"
	ephemeralHome = "ephemeral"
)

func checkHome(text string) error {
	if text != keptHome && text != ephemeralHome {
		return fmt.Errorf("%.80q: expected %s or %s", text, keptHome, ephemeralHome)
	}
	return nil
}

// secrets are those that the template names itself, and how it gets them.
func (v converter) secrets(t *forage.Template, raw rawTemplate, at func(...any) []any) {
	setList(&t.Secrets, raw.Secrets)
	for i, name := range raw.Secrets {
		v.secretName(name, at("secrets", i)...)
	}
	if raw.SecretMode != nil {
		var err error
		t.SecretMode, err = checkSecretMode(*raw.SecretMode)
		v.check(err, at("secretMode")...)
	}
}

func (v converter) templateName(name string) {
	if forage.CheckName(name) != nil {
		v.add(v.root.at("templates", name).key,
			"%s: expected a name of 1 to 63 of a-z, 0-9 and -", pathText([]any{"templates", name}))
	}
}

// each checks the items of a list.
func (v converter) each(items []string, check func(string) error, at []any) {
	for i, item := range items {
		v.check(check(item), append(slices.Clone(at), i)...)
	}
}

func checkCache(name string) error {
	if names := forage.CacheNames(); !slices.Contains(names, name) {
		return quoted(name, errors.New("expected one of "+strings.Join(names, ", ")))
	}
	return nil
}

func checkCommand(line string) error {
	if strings.TrimSpace(line) == "" || strings.ContainsRune(line, 0) {
		return errors.New("expected something that is not empty")
	}
	return nil
}

func (v converter) limits(l *forage.Limits, raw *rawLimits, at []any) {
	if raw == nil {
		return
	}
	key := func(name string) []any { return append(slices.Clone(at), name) }
	if raw.TasksMax != nil {
		if l.TasksMax = *raw.TasksMax; l.TasksMax < 1 {
			v.wrong(key("tasksMax"), "%d: expected at least 1", l.TasksMax)
		}
	}
	var err error
	if raw.CPUQuota != nil {
		l.CPUQuota, err = parsePercent(*raw.CPUQuota)
		v.check(quoted(*raw.CPUQuota, err), key("cpuQuota")...)
	}
	if raw.MemoryMax != nil {
		l.MemoryMax, err = parseSize(*raw.MemoryMax)
		v.check(quoted(*raw.MemoryMax, err), key("memoryMax")...)
	}
	if raw.DiskMax != nil {
		l.DiskMax, err = parseSize(*raw.DiskMax)
		v.check(quoted(*raw.DiskMax, err), key("diskMax")...)
	}
	if raw.WallClock != nil {
		l.WallClock, err = parseDuration(*raw.WallClock)
		v.check(quoted(*raw.WallClock, err), key("wallClock")...)
	}
}

// environment adds variables to a template's.
func (v converter) environment(t *forage.Template, raw map[string]string, at []any) {
	if len(raw) == 0 {
		return
	}
	env := maps.Clone(t.Env)
	if env == nil {
		env = map[string]string{}
	}
	for name, value := range raw {
		if !isEnvName(name) {
			v.wrong(append(slices.Clone(at), name), "not a variable's name")
		} else if strings.ContainsRune(value, 0) {
			v.wrong(append(slices.Clone(at), name), "a variable can't hold a zero byte")
		}
		env[name] = value
	}
	t.Env = env
}

// agents adds agents to a template's, or changes them key by key.
func (v converter) agents(t *forage.Template, raw map[string]rawAgent, at []any) {
	if len(raw) == 0 {
		return
	}
	agents := maps.Clone(t.Agents)
	if agents == nil {
		agents = map[string]forage.Agent{}
	}
	for name, r := range raw {
		key := func(k string) []any { return append(slices.Clone(at), name, k) }
		agent, known := agents[name]
		if !known || agent.Permissions == nil && r.Permissions != nil {
			agent.Permissions = &forage.Permissions{SkipAll: true}
		}
		if r.Command != nil {
			if len(r.Command) == 0 || r.Command[0] == "" {
				v.wrong(key("command"), "expected a program and its arguments")
			}
			agent.Command = slices.Clone(r.Command)
		}
		setText(&agent.AuthEnvVar, r.AuthEnvVar)
		if agent.AuthEnvVar != "" && !isEnvName(agent.AuthEnvVar) {
			v.wrong(key("authEnvVar"), "%.80q is not a variable's name", agent.AuthEnvVar)
		}
		setText(&agent.BaseURLEnvVar, r.BaseURLEnvVar)
		if agent.BaseURLEnvVar != "" && !isEnvName(agent.BaseURLEnvVar) {
			v.wrong(key("baseUrlEnvVar"), "%.80q is not a variable's name", agent.BaseURLEnvVar)
		}
		setText(&agent.Secret, r.SecretName)
		if isText(r.SecretName) {
			v.secretName(*r.SecretName, key("secretName")...)
		}
		if r.Permissions != nil {
			asked := *agent.Permissions
			setBool(&asked.SkipAll, r.Permissions.SkipAll)
			setList(&asked.Allow, r.Permissions.Allow)
			setList(&asked.Deny, r.Permissions.Deny)
			v.each(r.Permissions.Allow, checkCommand, append(key("permissions"), "allow"))
			v.each(r.Permissions.Deny, checkCommand, append(key("permissions"), "deny"))
			agent.Permissions = &asked
		}
		v.configDir(&agent, r, key)
		if agent.Command == nil && r.Command == nil && r.Package == nil {
			v.wrong(append(slices.Clone(at), name), "this agent has no command")
		}
		agents[name] = agent
	}
	t.Agents = agents
}

// configDir is what of the user's settings an agent gets, and where.
func (v converter) configDir(a *forage.Agent, raw rawAgent, key func(string) []any) {
	if raw.HostConfigDir != nil {
		if a.HostConfigDir = ""; *raw.HostConfigDir != "" {
			a.HostConfigDir = v.path(*raw.HostConfigDir, key("hostConfigDir")...)
		}
	}
	if raw.ContainerConfigDir != nil {
		a.ContainerConfigDir = *raw.ContainerConfigDir
		if inside, ok := strings.CutPrefix(a.ContainerConfigDir, "~/"); ok {
			a.ContainerConfigDir = forage.HomePath + "/" + inside
		}
		if !under(a.ContainerConfigDir, forage.HomePath) || filepath.Clean(a.ContainerConfigDir) != a.ContainerConfigDir {
			v.wrong(key("containerConfigDir"), "%.80q: expected a folder below %s", *raw.ContainerConfigDir, forage.HomePath)
		}
	}
	setBool(&a.ConfigReadOnly, raw.HostConfigDirReadOnly)
	setBool(&a.Hooks, raw.Hooks)
}
