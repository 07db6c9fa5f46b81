package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/pelletier/go-toml/v2"

	"forage"
)

// JSON is the configuration in force, defaults included, as a configuration file.
func (c *Config) JSON() ([]byte, error) {
	data, err := json.MarshalIndent(c.effective(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("showing the configuration: %w", err)
	}
	return append(data, '\n'), nil
}

// TOML is the configuration in force, defaults included, as a configuration file.
func (c *Config) TOML() ([]byte, error) {
	data, err := toml.Marshal(c.effective())
	if err != nil {
		return nil, fmt.Errorf("showing the configuration: %w", err)
	}
	return data, nil
}

// effective is the file that, alone, would make this configuration.
func (c *Config) effective() rawFile {
	raw := rawFile{
		AuthorizedKeys:  c.AuthorizedKeys,
		PortRange:       &rawPortRange{integer(int64(c.PortRange.From)), integer(int64(c.PortRange.To))},
		User:            text(c.User),
		SSHListen:       text(c.SSHListen),
		DefaultTemplate: text(c.DefaultTemplate),
		ContainerPrefix: text(c.ContainerPrefix),
		HostSets:        c.HostSets,
		Forbid:          c.Forbid.raw(),
		Secrets:         map[string]rawSecret{},
		Templates:       map[string]rawTemplate{},
		Proxy:           c.Proxy.raw(),
	}
	if n := c.Notify; n.Desktop || n.Bell || len(n.Command) > 0 {
		raw.Notify = &rawNotify{Desktop: truth(n.Desktop), Bell: truth(n.Bell), Command: n.Command}
	}
	if n := c.Network; n.UpstreamCA != "" || n.UpstreamProxy != "" || len(n.Resolve)+len(n.PrivateHosts) > 0 {
		raw.Network = &rawNetwork{Resolve: n.Resolve, PrivateHosts: n.PrivateHosts, UpstreamCA: text(n.UpstreamCA), UpstreamProxy: text(n.UpstreamProxy)}
	}
	for name, s := range c.Secrets {
		raw.Secrets[name] = rawSecret{
			File: text(s.File), Env: text(s.Env), Command: s.Command, Keyring: text(s.Keyring),
			Login: text(string(s.Login)), LoginFile: text(s.LoginFile), Preset: text(s.Preset),
			Hosts: s.Hosts, Inject: text(string(s.Place)),
			Header: text(s.Header), Format: text(s.Format), Query: text(s.Query), User: text(s.User),
		}
	}
	for name, t := range c.Templates {
		raw.Templates[name] = effectiveTemplate(t, c.raw.Templates[name])
	}
	return raw
}

// effectiveTemplate is t as it is written; what this version has no use for is
// taken from what was read.
func effectiveTemplate(t forage.Template, read rawTemplate) rawTemplate {
	raw := rawTemplate{
		Description:       text(t.Description),
		Runtime:           text(t.Runtime),
		Rootfs:            text(rootfsText(t.Rootfs)),
		Network:           text(string(modeName(t.Network.Mode))),
		AllowedHosts:      t.Network.Allow,
		ReadOnlyWorkspace: truth(t.ReadOnlyWorkspace),
		Volumes:           t.Volumes,
		Home:              homeText(t.EphemeralHome),
		Protect:           untruth(t.Unprotected),
		Caches:            effectiveCaches(t.Caches),
		SamePath:          truth(t.SamePath),
		NestedNamespaces:  truth(t.Security.NestedNamespaces),
		ResourceLimits:    effectiveLimits(t.Limits),
		Env:               t.Env,
		InitCommands:      t.Init,
		ExtraPackages:     t.ExtraPackages,
		Skills:            effectiveSkills(t.Skills),
		Rules:             effectiveRules(t.Network.Rules),
		Monitor:           truth(t.Network.Monitor),
		Traffic:           effectiveTraffic(t.Traffic),
		Secrets:           t.Secrets,
		SecretMode:        text(string(t.SecretMode)),
		Workspace:         effectiveParts(t.Parts),
		Agents:            map[string]rawAgent{},
		ClaudeSettings:    t.ClaudeSettings,
	}
	for name, agent := range t.Agents {
		a := read.Agents[name]
		a.Command, a.AuthEnvVar = agent.Command, text(agent.AuthEnvVar)
		a.SecretName, a.BaseURLEnvVar = text(agent.Secret), text(agent.BaseURLEnvVar)
		a.HostConfigDir, a.ContainerConfigDir = text(agent.HostConfigDir), text(agent.ContainerConfigDir)
		a.HostConfigDirReadOnly, a.Hooks = truth(agent.ConfigReadOnly), truth(agent.Hooks)
		if p := agent.Permissions; p != nil {
			a.Permissions = &rawPermissions{SkipAll: &p.SkipAll, Allow: p.Allow, Deny: p.Deny}
		}
		raw.Agents[name] = a
	}
	return raw
}

// effectiveCaches are the names, unless they are all, which is so without being said.
func effectiveCaches(names []string) *[]string {
	if slices.Equal(names, forage.CacheNames()) {
		return nil
	}
	names = append([]string{}, names...)
	return &names
}

func homeText(ephemeral bool) *string {
	if !ephemeral {
		return nil
	}
	return text(ephemeralHome)
}

func effectiveSkills(s forage.Skills) *rawSkills {
	if s == (forage.Skills{}) {
		return nil
	}
	return &rawSkills{JJ: truth(s.JJ), Nix: truth(s.Nix), Custom: text(s.Custom)}
}

func effectiveParts(parts []forage.Part) *rawWorkspace {
	if len(parts) == 0 {
		return nil
	}
	raw := rawWorkspace{Mounts: map[string]rawWorkspaceMount{}}
	for _, part := range parts {
		raw.Mounts[part.Name] = rawWorkspaceMount{
			ContainerPath: text(part.ContainerPath), Repo: text(part.Repo), Mode: text(string(part.Mode)),
			Branch: text(part.Branch), ReadOnly: truth(part.ReadOnly),
		}
	}
	return &raw
}

func effectiveLimits(l forage.Limits) *rawLimits {
	if l == (forage.Limits{}) {
		return nil
	}
	var raw rawLimits
	if l.CPUQuota != 0 {
		raw.CPUQuota = text(strconv.FormatInt(l.CPUQuota, 10) + "%")
	}
	if l.MemoryMax != 0 {
		raw.MemoryMax = text(sizeText(l.MemoryMax))
	}
	if l.TasksMax != 0 {
		raw.TasksMax = integer(l.TasksMax)
	}
	if l.DiskMax != 0 {
		raw.DiskMax = text(sizeText(l.DiskMax))
	}
	if l.WallClock != 0 {
		raw.WallClock = text(l.WallClock.String())
	}
	return &raw
}

func effectiveRules(rules []forage.Rule) []rawRule {
	var all []rawRule
	for _, r := range rules {
		raw := rawRule{Host: text(r.Host), Methods: r.Methods, Paths: r.Paths, Deny: truth(r.Deny), Inspect: truth(r.Inspect)}
		if r.Git != nil {
			raw.Git = &rawGit{Repos: r.Git.Repos, Push: r.Git.Push}
		}
		all = append(all, raw)
	}
	return all
}

func effectiveTraffic(t forage.Traffic) *rawTraffic {
	if t == (forage.Traffic{}) {
		return nil
	}
	var raw rawTraffic
	for _, bound := range [...]struct {
		from int64
		to   **int64
	}{{t.RequestsPerMinute, &raw.RequestsPerMinute}, {t.ConnectionsMax, &raw.ConnectionsMax}, {t.MaxTokens, &raw.MaxTokens}} {
		if bound.from != 0 {
			*bound.to = integer(bound.from)
		}
	}
	if t.BytesMax != 0 {
		raw.BytesMax = text(sizeText(t.BytesMax))
	}
	if t.MaxCost != 0 {
		raw.MaxCost = &t.MaxCost
	}
	return &raw
}

func (f Forbid) raw() *rawForbid {
	if len(f.mounts)+len(f.flags)+len(f.networks)+len(f.runtimes) == 0 {
		return nil
	}
	written := func(list []forbidden) (all []string) {
		for _, entry := range list {
			all = append(all, entry.what)
		}
		return all
	}
	return &rawForbid{
		Mounts: written(f.mounts), Flags: written(f.flags),
		Networks: written(f.networks), Runtimes: written(f.runtimes),
	}
}

func rootfsText(r forage.Rootfs) string {
	if r.Ref == "" {
		return string(forage.RootfsHost)
	}
	return string(r.Kind) + ":" + r.Ref
}

// sizeText writes bytes in the greatest unit that divides them.
func sizeText(n int64) string {
	unit := 0
	for unit < 4 && n%1024 == 0 {
		n /= 1024
		unit++
	}
	return strconv.FormatInt(n, 10) + [...]string{"", "K", "M", "G", "T"}[unit]
}

// text, truth and integer make a raw value, absent where it would say nothing.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func truth(b bool) *bool {
	if !b {
		return nil
	}
	return &b
}

// untruth is false where b is true, and else what is so without being said.
func untruth(b bool) *bool {
	if !b {
		return nil
	}
	no := false
	return &no
}

func integer(n int64) *int64 { return &n }
