package config

import (
	"slices"

	"forage"
	"forage/internal/agent"
)

// builtins are the templates that are there without any file. They set no
// limit that needs control groups, so that a first run works anywhere, and allow no
// host but those that their agent's API and its login need. They name the secret of that API
// by its preset, so that it is found where nobody configures it.
func builtins() map[string]forage.Template {
	templates := map[string]forage.Template{}
	for _, t := range [...]forage.Template{
		agentTemplate("generic", "Any command, with no network until hosts are allowed", nil, "shell", shellAgent()),
		agentTemplate("shell", "A shell, with no network until hosts are allowed", nil, "shell", shellAgent()),
	} {
		templates[t.Name] = t
	}
	for _, known := range agent.All() {
		templates[known.Name] = agentTemplate(known.Name, known.About, known.Hosts, known.Name, builtinAgent(known))
	}
	templates["multi"] = multi()
	return templates
}

// BuiltinHosts are the hosts that the built-in template of that name allows; none if
// there is no such template.
func BuiltinHosts(name string) []string { return builtins()[name].Network.Allow }

func agentTemplate(name, description string, hosts []string, agentName string, a forage.Agent) forage.Template {
	return forage.Template{
		Name:        name,
		Description: description,
		Rootfs:      forage.Rootfs{Kind: forage.RootfsHost},
		Network:     forage.Network{Mode: forage.NetworkRestricted, Allow: hosts},
		Agents:      map[string]forage.Agent{agentName: a},
		Caches:      forage.CacheNames(),
	}
}

// shellAgent is bash where the root filesystem has it. It is no login shell:
// profile files would replace the PATH that the sandbox was given.
func shellAgent() forage.Agent {
	return forage.Agent{Command: []string{"sh", "-c", `exec "$(command -v bash || command -v sh)"`}}
}

// builtinAgent asks for nothing: the sandbox says what it may do.
func builtinAgent(known agent.Agent) forage.Agent {
	return forage.Agent{
		Command: slices.Clone(known.Command), AuthEnvVar: known.AuthEnvVar, Secret: known.Secret,
		Permissions: &forage.Permissions{SkipAll: true},
	}
}

// multi has two agents, each with its own secret, and a shell to start them from.
func multi() forage.Template {
	t := agentTemplate("multi", "Claude Code and opencode, each with its own key", nil, "multi", shellAgent())
	for _, name := range [...]string{"claude", "opencode"} {
		known, _ := agent.Lookup(name)
		t.Agents[name] = builtinAgent(known)
		t.Network.Allow = append(t.Network.Allow, known.Hosts...)
	}
	return t
}
