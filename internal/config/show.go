package config

import (
	"encoding/json"
	"fmt"
	"maps"

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

// effective is the file that, alone, would make this configuration: what the files say over the defaults.
func (c *Config) effective() map[string]any {
	var p problems // there are none: the files were converted
	said := map[string]any{}
	if c.tree != nil {
		said = c.tree.plain(&p, nil).(map[string]any)
	}
	all := over(shownDefaults(c.Templates), said)
	if f := c.Forbid; len(f.mounts)+len(f.flags)+len(f.networks)+len(f.runtimes) > 0 { // of all files together
		all["forbid"] = map[string]any{
			"mounts": written(f.mounts), "flags": written(f.flags), "networks": written(f.networks), "runtimes": written(f.runtimes),
		}
	}
	return all
}

func written(list []forbidden) []string {
	all := []string{}
	for _, entry := range list {
		all = append(all, entry.what)
	}
	return all
}

// over is overlay for what is shown.
func over(under, says map[string]any) map[string]any {
	merged := maps.Clone(under)
	for key, value := range says {
		below, isTable := merged[key].(map[string]any)
		if table, ok := value.(map[string]any); ok && isTable {
			value = over(below, table)
		}
		merged[key] = value
	}
	return merged
}

// shownDefaults are the defaults, with what holds in each of the templates where nothing is said.
func shownDefaults(templates map[string]forage.Template) map[string]any {
	c := defaults()
	shown := map[string]any{}
	for name := range templates {
		shown[name] = map[string]any{"rootfs": string(forage.RootfsHost), "network": string(forage.NetworkRestricted)}
	}
	for name, t := range c.Templates {
		agents := map[string]any{}
		for name, a := range t.Agents {
			agent := map[string]any{"command": a.Command}
			if a.Secret != "" {
				agent["secretName"] = a.Secret
			}
			if a.AuthEnvVar != "" {
				agent["authEnvVar"] = a.AuthEnvVar
			}
			if a.Permissions != nil {
				agent["permissions"] = map[string]any{"skipAll": a.Permissions.SkipAll}
			}
			agents[name] = agent
		}
		template := map[string]any{
			"description": t.Description, "rootfs": string(t.Rootfs.Kind), "network": string(t.Network.Mode), "agents": agents,
		}
		if t.Network.Allow != nil {
			template["allowedHosts"] = t.Network.Allow
		}
		shown[name] = template
	}
	return map[string]any{
		"portRange": map[string]any{"from": c.PortRange.From, "to": c.PortRange.To},
		"sshListen": c.SSHListen, "defaultTemplate": c.DefaultTemplate, "containerPrefix": c.ContainerPrefix,
		"templates": shown,
	}
}
