package agent

import (
	"path"

	"forage"
)

// claudeKeyEnd is how many of a key's last bytes Claude Code 2.1 remembers, once it may use the
// key.
const claudeKeyEnd = 20

// claude is Claude Code. Its managed settings (/etc/claude-code) go over all others.
func claude() Agent {
	return Agent{
		Name:       "claude",
		About:      "Claude Code, with Anthropic's API",
		Install:    "npm install -g @anthropic-ai/claude-code",
		Command:    []string{"claude"},
		Headless:   []string{"claude", "-p"},
		Resume:     []string{"claude", "--continue"},
		Hosts:      []string{"api.anthropic.com", "console.anthropic.com", "platform.claude.com"},
		Secret:     "anthropic",
		AuthEnvVar: "ANTHROPIC_API_KEY",
		Quiet: map[string]string{
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC":             "1",
			"CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",
			"DISABLE_AUTOUPDATER":                                  "1",
		},
		Settings:     claudeSettings,
		Rules:        "Bash(git push *)",
		Instructions: []string{"/etc/claude-code/CLAUDE.md"},
		Config: Config{
			Host: ".claude", Inside: "~/.claude", Variable: "CLAUDE_CONFIG_DIR",
			Copy: []string{"CLAUDE.md", "rules", "skills", "commands", "agents", "output-styles"},
			File: "settings.json",
			Keys: []string{"model", "permissions.allow", "permissions.deny", "outputStyle", "language", "theme",
				"includeCoAuthoredBy", "attribution", "alwaysThinkingEnabled", "effortLevel"},
			HookKeys: []string{"hooks"}, HookCopy: []string{"hooks"},
			Servers: Servers{File: "../.claude.json", Key: "mcpServers"},
		},
		Activity: Activity{Working: []string{"◐", "◑", "⠂", "⠐"}, Waiting: []string{"✳"}},
	}
}

func claudeSettings(in Inside) Settings {
	permissions := map[string]any{}
	// In tmux its title does not say whether it works.
	managed := map[string]any{"permissions": permissions, "env": map[string]any{"TMUX": ""}}
	if in.Permissions.SkipAll {
		permissions["defaultMode"] = "bypassPermissions"
		managed["skipDangerousModePermissionPrompt"] = true
	}
	if len(in.Permissions.Allow) > 0 {
		permissions["allow"] = list(in.Permissions.Allow)
	}
	if len(in.Permissions.Deny) > 0 {
		permissions["deny"] = list(in.Permissions.Deny)
	}
	s := Settings{
		Env:   map[string]string{"CLAUDE_CODE_SANDBOXED": "1"}, // the folder is trusted
		Files: []forage.File{jsonFile("/etc/claude-code/managed-settings.json", over(managed, in.Template), false)},
	}
	// Without onboarding it asks for a theme, and without the end of the key whether it may use it.
	state := map[string]any{"hasCompletedOnboarding": true}
	if in.Key != "" {
		end := in.Key[max(0, len(in.Key)-claudeKeyEnd):]
		state["customApiKeyResponses"] = map[string]any{"approved": []any{end}, "rejected": []any{}}
	}
	if len(in.Servers) > 0 {
		state["mcpServers"] = in.Servers
	}
	at := path.Join(in.Home, ".claude.json")
	if in.Dir != path.Join(in.Home, ".claude") {
		at = path.Join(in.Dir, ".claude.json")
	}
	s.Files = append(s.Files, jsonFile(at, state, true))
	if len(in.Own) > 0 {
		s.Files = append(s.Files, jsonFile(path.Join(in.Dir, "settings.json"), in.Own, !in.ReadOnly))
	}
	return s
}
