package config

import (
	"cmp"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"forage"
	"forage/internal/policy"
	"forage/internal/provider"
)

// converter turns raw values, each of which is right by itself, into typed ones, and finds what
// is wrong with them together.
type converter struct {
	document
	*problems
	config *Config
}

// convert makes c of what the files say over what is built in.
func (v converter) convert() {
	c, raw := v.config, &v.config.raw
	c.User, c.AuthorizedKeys = raw.User, raw.AuthorizedKeys
	c.SSHListen, c.DefaultTemplate, c.ContainerPrefix = raw.SSHListen, raw.DefaultTemplate, raw.ContainerPrefix
	c.RuntimeOrder = raw.RuntimeOrder
	c.ImagesMax, _ = parseSize(raw.ImagesMax)
	c.KeptRunsMax, _ = parseSize(raw.KeptRunsMax)
	c.PortRange = PortRange(raw.PortRange)
	if r := c.PortRange; r.From > r.To {
		v.wrong("portRange", "from (%d) is greater than to (%d)", r.From, r.To)
	}
	c.Network = forage.NetworkFacts{
		PrivateHosts: raw.Network.PrivateHosts, UpstreamCA: raw.Network.UpstreamCA, UpstreamProxy: raw.Network.UpstreamProxy,
	}
	for from, to := range raw.Network.Resolve {
		from, to, err := parseResolve(from, to)
		if v.check(err, join("network.resolve", from)) {
			if c.Network.Resolve == nil {
				c.Network.Resolve = map[string]string{}
			}
			c.Network.Resolve[from] = to
		}
	}
	c.HostSets = raw.HostSets
	for name, hosts := range raw.HostSets {
		for i, host := range hosts {
			at := item(join("hostSets", name), i)
			if policy.IsSet(host) && host != "@"+name {
				v.wrong(at, "%q: a set holds hosts, and of sets itself alone, as @%s", host, name)
				continue
			}
			v.check(checkHost(host), at)
		}
	}
	c.Notify = forage.Notify(raw.Notify)
	v.argv("notify.command", raw.Notify.Command)
	c.Secrets = raw.Secrets
	for name, secret := range raw.Secrets {
		v.secret(name, secret)
	}
	for name, template := range raw.Templates {
		v.template(name, template)
	}
	// Checks that the secrets of each template that the files write can be bound together: each
	// says where it may go, and no two go to the same host. What a template gives a variable of its
	// own does without its secret, and with wrappers hosts don't matter.
	for name, t := range v.config.Templates {
		at := join("templates", name)
		taken := map[entry]string{} // the secret that has a host
		for _, agent := range slices.Sorted(maps.Keys(t.Agents)) {
			v.bind(t, t.Agents[agent].Secret, taken, join(at+".agents", agent)+".secretName")
		}
		for i, secret := range t.Secrets {
			v.bind(t, secret, taken, item(at+".secrets", i))
		}
	}
	v.proxy(raw.Proxy)
	v.templateName("defaultTemplate", c.DefaultTemplate)
}

// wrong adds a problem with the value at path.
func (v converter) wrong(path, format string, args ...any) {
	v.add(v.place(path), path+": "+format, args...)
}

// check adds err, if it is one, as a problem with the value at path.
func (v converter) check(err error, path string) bool {
	if err != nil {
		v.wrong(path, "%v", err)
	}
	return err == nil
}

// argv checks a command that is there.
func (v converter) argv(path string, command []string) {
	if command != nil && (len(command) == 0 || command[0] == "") {
		v.wrong(path, "expected a program and its arguments")
	}
}

// templateName checks the name of a template that something else has.
func (v converter) templateName(path, name string) {
	if _, ok := v.config.Templates[name]; !ok {
		v.wrong(path, "no template is called %.80q%s", name, didYouMean(name, slices.Sorted(maps.Keys(v.config.Templates))))
	}
}

const ephemeralHome = "ephemeral" // of home; the other value is kept

func (v converter) template(name string, raw rawTemplate) {
	at := join("templates", name)
	t := forage.Template{
		Name: name, Description: raw.Description, Runtime: raw.Runtime, ExtraPackages: raw.ExtraPackages,
		Network: forage.Network{
			Mode: cmp.Or(forage.NetworkMode(raw.Network), forage.NetworkRestricted), Allow: raw.AllowedHosts,
			Rules: v.rules(raw.Rules, at+".rules"), Monitor: raw.Monitor,
		},
		Traffic: trafficOf(raw.Traffic), Limits: limitsOf(raw.ResourceLimits), Secrets: raw.Secrets,
		ReadOnlyWorkspace: raw.ReadOnlyWorkspace, Unprotected: raw.Protect != nil && !*raw.Protect, SamePath: raw.SamePath,
		Caches: forage.CacheNames(), Volumes: raw.Volumes, EphemeralHome: raw.Home == ephemeralHome,
		Security: forage.Security{NestedNamespaces: raw.NestedNamespaces},
		Init:     raw.InitCommands, Skills: raw.Skills, Env: raw.Env, ClaudeSettings: raw.ClaudeSettings,
		Agents: v.agents(name, raw, at), Parts: v.parts(raw.Workspace.Mounts, at+".workspace.mounts"),
	}
	kind, ref, _ := strings.Cut(cmp.Or(raw.Rootfs, string(forage.RootfsHost)), ":")
	t.Rootfs = forage.Rootfs{Kind: forage.RootfsKind(kind), Ref: ref}
	if raw.Caches != nil {
		t.Caches = *raw.Caches
	}
	t.Terminal, t.ForwardAuto, t.SSHForward = v.config.raw.Terminal, raw.Forward != "", raw.SSHForward
	if raw.Terminal != nil {
		t.Terminal = *raw.Terminal
	}
	if raw.SecretMode == string(forage.SecretsWrapped) {
		t.SecretMode = forage.SecretsWrapped
	}
	for i, name := range raw.Secrets {
		v.secretName(name, item(at+".secrets", i))
	}
	v.config.Templates[name] = t
}

// limitsOf are limits whose texts have been checked.
func limitsOf(raw rawLimits) forage.Limits {
	l := forage.Limits{TasksMax: raw.TasksMax}
	l.CPUQuota, _ = parsePercent(raw.CPUQuota)
	l.MemoryMax, _ = parseSize(raw.MemoryMax)
	l.DiskMax, _ = parseSize(raw.DiskMax)
	l.WallClock, _ = parseDuration(raw.WallClock)
	return l
}

func trafficOf(raw rawTraffic) forage.Traffic {
	t := forage.Traffic{
		RequestsPerMinute: raw.RequestsPerMinute, ConnectionsMax: raw.ConnectionsMax, MaxTokens: raw.MaxTokens, MaxCost: raw.MaxCost,
	}
	t.BytesMax, _ = parseSize(raw.BytesMax)
	return t
}

// agents are a template's agents. What is known of one and can't be enforced is noted.
func (v converter) agents(template string, raw rawTemplate, at string) map[string]forage.Agent {
	var agents map[string]forage.Agent
	for _, name := range slices.Sorted(maps.Keys(raw.Agents)) {
		r, at := raw.Agents[name], join(at+".agents", name)
		agent := forage.Agent{
			Command: r.Command, AuthEnvVar: r.AuthEnvVar, Secret: r.SecretName, BaseURLEnvVar: r.BaseURLEnvVar,
			HostConfigDir: r.HostConfigDir, ConfigReadOnly: r.HostConfigDirReadOnly, Hooks: r.Hooks,
			Permissions: &forage.Permissions{SkipAll: true},
		}
		if p := r.Permissions; p != nil {
			agent.Permissions = &forage.Permissions{SkipAll: p.SkipAll == nil || *p.SkipAll, Allow: p.Allow, Deny: p.Deny}
		}
		v.argv(at+".command", r.Command)
		if r.Command == nil && r.Package == "" {
			v.wrong(at, "this agent has no command")
		}
		if r.SecretName != "" {
			v.secretName(r.SecretName, at+".secretName")
		}
		if r.ContainerConfigDir != "" {
			agent.ContainerConfigDir = r.ContainerConfigDir
			if inside, ok := strings.CutPrefix(r.ContainerConfigDir, "~/"); ok {
				agent.ContainerConfigDir = forage.HomePath + "/" + inside
			}
			if !under(agent.ContainerConfigDir, forage.HomePath) || filepath.Clean(agent.ContainerConfigDir) != agent.ContainerConfigDir {
				v.wrong(at+".containerConfigDir", "%.80q: expected a folder below %s", r.ContainerConfigDir, forage.HomePath)
			}
		}
		if r.Package != "" {
			used := v.place(at + ".package")
			v.config.Unsupported[template] = append(v.config.Unsupported[template], KeyUse{at + ".package", used.file.path, used.line()})
		}
		if agents == nil {
			agents = map[string]forage.Agent{}
		}
		agents[name] = agent
	}
	return agents
}

// rules are the rules as they are written; each that means nothing is a problem where it is.
func (v converter) rules(rules []forage.Rule, at string) []forage.Rule {
	for i, rule := range rules {
		at := item(at, i)
		for key, list := range map[string][]string{"methods": rule.Methods, "paths": rule.Paths} {
			if list != nil && len(list) == 0 {
				v.wrong(at+"."+key, "expected at least one; without the key any will do")
			}
		}
		if policy.IsSet(rule.Host) {
			v.check(checkSetName(rule.Host[1:]), at+".host")
			rule.Host = "one-of-the-set.invalid"
		}
		var wrong *policy.RuleError
		if err := policy.CheckRule(rule); errors.As(err, &wrong) {
			for _, step := range wrong.Path {
				if index, ok := step.(int); ok {
					at = item(at, index)
				} else {
					at = join(at, step.(string))
				}
			}
			v.wrong(at, "%v", wrong.Err)
		}
	}
	return rules
}

// secret checks one credential: that it has one source, and says one thing about its use.
func (v converter) secret(name string, s Secret) {
	at := join("secrets", name)
	if sources := count(s.File != "", s.Env != "", s.Command != nil, s.Keyring != "", s.Login != ""); sources != 1 {
		v.wrong(at, "expected one of file, env, command, keyring and login, found %d", sources)
	}
	v.argv(at+".command", s.Command)
	if s.LoginFile != "" && s.Login == "" {
		v.wrong(at+".loginFile", "expected login as well: claude or chatgpt")
	}
	said := s.Place
	for _, part := range [...]struct {
		key, text string
		places    []forage.SecretPlace // that it says something about
	}{
		{"header", s.Header, []forage.SecretPlace{forage.PlaceHeader, forage.PlaceReplace}},
		{"format", s.Format, []forage.SecretPlace{forage.PlaceHeader}},
		{"query", s.Query, []forage.SecretPlace{forage.PlaceQuery}},
		{"user", s.User, []forage.SecretPlace{forage.PlaceBasic}},
	} {
		if _, ok := v.at[at+"."+part.key]; !ok {
			continue
		}
		if s.Place == "" && part.key != "format" {
			s.Place = part.places[0]
		} else if !slices.Contains(part.places, s.Place) {
			v.wrong(at+"."+part.key, "%s is for inject = %q", part.key, part.places[0])
		}
	}
	switch {
	case (s.Place == forage.PlaceHeader || s.Place == forage.PlaceReplace) && s.Header == "":
		v.wrong(at+".inject", "expected header as well, the name of a request header")
	case s.Place == forage.PlaceQuery && s.Query == "":
		v.wrong(at+".inject", "expected query as well, the name of a parameter")
	}
	if _, own := provider.Lookup(name); len(s.Hosts) > 0 && s.Preset == "" && !own && s.Login == "" && said == "" && s.Place == "" {
		v.wrong(at+".hosts", "expected inject, header, query or user as well: how requests to these hosts carry it")
	}
	v.config.Secrets[name] = s
}

// secretName checks the name of a secret that a template uses: one that is
// configured, or that of a preset, which is looked for when a sandbox starts.
func (v converter) secretName(name, at string) {
	known := slices.Concat(provider.Names(), slices.Collect(maps.Keys(v.config.raw.Secrets)))
	if !slices.Contains(known, name) {
		slices.Sort(known)
		v.wrong(at, "no secret is called %.80q%s", name, didYouMean(name, slices.Compact(known)))
	}
}
