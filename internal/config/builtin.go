package config

import "forage"

// builtins are the templates that are there without any file. They set no
// limit that needs control groups, so that a first run works anywhere, and allow no
// host but those that their agent's API and its login need. They name the secret of that API
// by its preset, so that it is found where nobody configures it.
func builtins() map[string]forage.Template {
	templates := map[string]forage.Template{}
	for _, t := range [...]forage.Template{
		agentTemplate("generic", "Any command, with no network until hosts are allowed", nil, "shell", shellAgent()),
		agentTemplate("shell", "A shell, with no network until hosts are allowed", nil, "shell", shellAgent()),
		claude(), codex(), gemini(), opencode(),
	} {
		templates[t.Name] = t
	}
	return templates
}

// BuiltinHosts are the hosts that the built-in template of that name allows; none if
// there is no such template.
func BuiltinHosts(name string) []string { return builtins()[name].Network.Allow }

func agentTemplate(name, description string, hosts []string, agentName string, agent forage.Agent) forage.Template {
	return forage.Template{
		Name:        name,
		Description: description,
		Rootfs:      forage.Rootfs{Kind: forage.RootfsHost},
		Network:     forage.Network{Mode: forage.NetworkRestricted, Allow: hosts},
		Agents:      map[string]forage.Agent{agentName: agent},
	}
}

// shellAgent is bash where the root filesystem has it. It is no login shell:
// profile files would replace the PATH that the sandbox was given.
func shellAgent() forage.Agent {
	return forage.Agent{Command: []string{"sh", "-c", `exec "$(command -v bash || command -v sh)"`}}
}

// claude allows the API, and the hosts at which Claude Code logs in and renews
// its tokens (Anthropic accounts and the Console). Updates, error reports and
// usage statistics are switched off instead of allowed.
func claude() forage.Template {
	t := agentTemplate("claude", "Claude Code, with Anthropic's API", []string{
		"api.anthropic.com",
		"console.anthropic.com",
		"platform.claude.com",
	}, "claude", forage.Agent{Command: []string{"claude"}, AuthEnvVar: "ANTHROPIC_API_KEY", Secret: "anthropic"})
	t.Env = map[string]string{
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
		"DISABLE_AUTOUPDATER":                      "1",
	}
	return t
}

// codex allows the API for keys, and ChatGPT's for accounts with their login.
func codex() forage.Template {
	return agentTemplate("codex", "Codex, with OpenAI's API", []string{
		"api.openai.com",
		"auth.openai.com",
		"chatgpt.com",
	}, "codex", forage.Agent{Command: []string{"codex"}, AuthEnvVar: "OPENAI_API_KEY", Secret: "openai"})
}

// gemini allows the API for keys, and Code Assist for Google accounts with their login.
func gemini() forage.Template {
	return agentTemplate("gemini", "Gemini CLI, with Google's API", []string{
		"accounts.google.com",
		"cloudcode-pa.googleapis.com",
		"generativelanguage.googleapis.com",
		"oauth2.googleapis.com",
	}, "gemini", forage.Agent{Command: []string{"gemini"}, AuthEnvVar: "GEMINI_API_KEY", Secret: "gemini"})
}

// opencode allows its own gateway and its list of models. Other providers'
// hosts, and whose key it is, depend on what the user has, and are for the user to say.
func opencode() forage.Template {
	t := agentTemplate("opencode", "opencode, with its own gateway", []string{
		"models.dev",
		"opencode.ai",
	}, "opencode", forage.Agent{Command: []string{"opencode"}, AuthEnvVar: "OPENCODE_API_KEY"})
	t.Env = map[string]string{"OPENCODE_DISABLE_AUTOUPDATE": "1"}
	return t
}
