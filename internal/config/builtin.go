package config

import (
	"maps"
	"slices"

	"forage"
	"forage/internal/agent"
)

// builtins are what is there without any file, as a file says it. Its templates set no
// limit that needs control groups, so that a first run works anywhere, and allow no
// host but those that their agent's API and its login need. They name the secret of that API
// by its preset, so that it is found without a configuration.
func builtins() map[string]any {
	// It is bash where the root filesystem has it, and no login shell:
	// profile files would replace the PATH that the sandbox was given.
	shell := map[string]any{"command": list("sh", "-c", `exec "$(command -v bash || command -v sh)"`)}
	templates := map[string]any{
		"generic": builtin("Any command, with no network until hosts are allowed", nil, map[string]any{"shell": shell}),
		"shell":   builtin("A shell, with no network until hosts are allowed", nil, map[string]any{"shell": shell}),
	}
	agents, hosts := map[string]any{"multi": shell}, []string{}
	for _, known := range agent.All() {
		// It asks for nothing: the sandbox says what it may do.
		says := map[string]any{"command": list(known.Command...), "permissions": map[string]any{"skipAll": true}}
		for key, text := range map[string]string{"authEnvVar": known.AuthEnvVar, "secretName": known.Secret} {
			if text != "" {
				says[key] = text
			}
		}
		templates[known.Name] = builtin(known.About, known.Hosts, map[string]any{known.Name: says})
		if known.Name == "claude" || known.Name == "opencode" {
			agents[known.Name], hosts = says, append(hosts, known.Hosts...)
		}
	}
	// Two agents, each with its own secret, and a shell to start them from.
	templates["multi"] = builtin("Claude Code and opencode, each with its own key", hosts, agents)
	return map[string]any{
		"portRange": map[string]any{"from": int64(2200), "to": int64(2299)}, "sshListen": "127.0.0.1",
		"defaultTemplate": "generic", "containerPrefix": "forage-", "imagesMax": "50G", "keptRunsMax": "100G", "templates": templates,
	}
}

// newTemplate is what holds in a template where nothing is said.
func newTemplate() map[string]any {
	return map[string]any{"rootfs": string(forage.RootfsHost), "network": string(forage.NetworkRestricted)}
}

func builtin(description string, hosts []string, agents map[string]any) map[string]any {
	t := newTemplate()
	maps.Copy(t, map[string]any{"description": description, "agents": agents})
	if hosts != nil {
		t["allowedHosts"] = list(hosts...)
	}
	return t
}

func list(texts ...string) []any {
	items := make([]any, len(texts))
	for i, text := range texts {
		items[i] = text
	}
	return items
}

// BuiltinHosts are the hosts that the built-in template of that name allows; none if
// there is no such template.
func BuiltinHosts(name string) []string {
	var raw rawFile
	binder{document: document{values: builtins()}, problems: &problems{}}.bind(&raw)
	return slices.Clone(raw.Templates[name].AllowedHosts)
}
