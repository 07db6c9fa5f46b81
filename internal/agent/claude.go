package agent

// claude is Claude Code.
func claude() Agent {
	return Agent{
		Name:         "claude",
		Install:      "npm install -g @anthropic-ai/claude-code",
		Command:      []string{"claude"},
		Headless:     []string{"claude", "-p"},
		Resume:       []string{"claude", "--continue"},
		Hosts:        []string{"api.anthropic.com", "console.anthropic.com", "platform.claude.com"},
		Secret:       "anthropic",
		AuthEnvVar:   "ANTHROPIC_API_KEY",
		Instructions: []string{"/etc/claude-code/CLAUDE.md"},
		Activity:     Activity{Working: []string{"⠂", "⠐"}, Waiting: []string{"✳"}},
	}
}
