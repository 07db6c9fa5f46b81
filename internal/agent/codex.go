package agent

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"forage"
)

// codex is Codex. Its system-wide settings are in /etc/codex.
func codex() Agent {
	return Agent{
		Name:       "codex",
		About:      "Codex, with OpenAI's API",
		Install:    "npm install -g @openai/codex",
		Command:    []string{"codex"},
		Headless:   []string{"codex", "exec"},
		Resume:     []string{"codex", "resume", "--last"},
		Hosts:      []string{"api.openai.com", "auth.openai.com", "chatgpt.com"},
		Secret:     "openai",
		AuthEnvVar: "OPENAI_API_KEY",
		Settings:   codexSettings,
		Rules:      "git push",
		// It reads no file in /etc/codex.
		Instructions: []string{"~/.codex/AGENTS.md"},
		Config: Config{
			Host: ".codex", Inside: "~/.codex", Variable: "CODEX_HOME",
			Copy: []string{"AGENTS.md", "prompts", "skills", "rules"},
			File: "config.toml",
			Keys: []string{"model", "model_reasoning_effort", "model_reasoning_summary", "model_verbosity", "personality",
				"tui.theme", "hide_agent_reasoning", "show_raw_agent_reasoning"},
			Servers: Servers{Key: "mcp_servers"},
		},
		Activity: Activity{OSC: "7501"},
	}
}

// codexSettings: its own sandbox is off, since the one that it makes does not work in a sandbox.
func codexSettings(in Inside) Settings {
	approval := "untrusted"
	if in.Permissions.SkipAll {
		approval = "never"
	}
	system := map[string]any{
		"approval_policy": approval, "sandbox_mode": "danger-full-access", "check_for_update_on_startup": false,
		"projects":  map[string]any{cmp.Or(in.Work, forage.WorkspacePath): map[string]any{"trust_level": "trusted"}},
		"analytics": map[string]any{"enabled": false},
		"feedback":  map[string]any{"enabled": false},
		"tui":       map[string]any{"show_tooltips": false},
		// Catalogues of plugins and apps, updates, and a server in the background.
		"features": map[string]any{
			"plugins": false, "remote_plugin": false, "plugin_sharing": false, "plugin_discovery_prefetch": false, "recommended_plugins": false,
			"apps": false, "tool_suggest": false, "api_key_model_discovery": false, "in_app_updates": false, "daemon_auto_start": false,
		},
	}
	if len(in.Servers) > 0 {
		system["mcp_servers"] = in.Servers
	}
	s := Settings{
		Files: []forage.File{tomlFile("/etc/codex/config.toml", over(in.Own, system))},
		// With any setting on its command line, its screen does not copy itself into the home and
		// leaves no server behind.
		Args: []string{"-c", "check_for_update_on_startup=false"},
	}
	if in.Key != "" { // its screen looks for a key in this file alone
		s.Files = append(s.Files, jsonFile(path.Join(in.Dir, "auth.json"), map[string]any{"auth_mode": "apikey", "OPENAI_API_KEY": in.Key}, true))
	}
	var rules strings.Builder
	for _, r := range []struct {
		decision string
		commands []string
	}{{"allow", in.Permissions.Allow}, {"forbidden", in.Permissions.Deny}} {
		for _, command := range r.commands {
			words := strings.Fields(command)
			for i := range words {
				words[i] = quote(words[i])
			}
			fmt.Fprintf(&rules, "prefix_rule(pattern = [%s], decision = %s)\n", strings.Join(words, ", "), quote(r.decision))
		}
	}
	if rules.Len() > 0 {
		s.Files = append(s.Files, forage.File{Path: "/etc/codex/rules/forage.rules", Content: []byte(rules.String())})
	}
	return s
}
