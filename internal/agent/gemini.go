package agent

import (
	"fmt"
	"path"
	"strings"

	"forage"
)

// gemini is Gemini CLI. It skips /etc/gemini-cli unless user 0 owns it, and there is no user 0
// inside. So its settings and policies are in its own folder.
func gemini() Agent {
	return Agent{
		Name:     "gemini",
		About:    "Gemini CLI, with Google's API",
		Install:  "npm install -g @google/gemini-cli",
		Command:  []string{"gemini"},
		Headless: []string{"gemini", "-p"},
		Resume:   []string{"gemini", "-r", "latest"},
		Hosts: []string{"accounts.google.com", "cloudcode-pa.googleapis.com",
			"generativelanguage.googleapis.com", "oauth2.googleapis.com"},
		Secret:       "gemini",
		AuthEnvVar:   "GEMINI_API_KEY",
		Without:      []string{"GOOGLE_API_KEY"},
		Settings:     geminiSettings,
		Rules:        "run_shell_command(git push)",
		Instructions: []string{"~/.gemini/GEMINI.md"},
		Config: Config{
			Host: ".gemini", Inside: "~/.gemini",
			Copy:     []string{"GEMINI.md", "commands", "skills"},
			File:     "settings.json",
			Keys:     []string{"model", "ui.theme", "ui.hideTips", "general.vimMode", "context.fileName"},
			HookKeys: []string{"hooks"}, HookCopy: []string{"hooks"},
			Servers: Servers{Key: "mcpServers"},
		},
		Activity: Activity{Working: []string{"✦"}, Waiting: []string{"◇", "✋"}},
	}
}

func geminiSettings(in Inside) Settings {
	security := map[string]any{"folderTrust": map[string]any{"enabled": false}}
	if in.Key != "" {
		security["auth"] = map[string]any{"selectedType": "gemini-api-key"}
	}
	system := map[string]any{
		"security": security,
		"general":  map[string]any{"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
		"privacy":  map[string]any{"usageStatisticsEnabled": false},
	}
	if len(in.Servers) > 0 {
		system["mcpServers"] = in.Servers
	}
	s := Settings{
		Env:   map[string]string{"GEMINI_CLI_TRUST_WORKSPACE": "true"},
		Files: []forage.File{jsonFile(path.Join(in.Dir, "settings.json"), over(in.Own, system), !in.ReadOnly)},
	}
	var policy strings.Builder
	rule := func(text, decision string, priority int) {
		tool, command := rule(text)
		fmt.Fprintf(&policy, "[[rule]]\ntoolName = %s\n", quote(tool))
		if command != "" {
			fmt.Fprintf(&policy, "commandPrefix = %s\n", quote(command))
		}
		fmt.Fprintf(&policy, "decision = %s\npriority = %d\n", quote(decision), priority)
		if decision == "allow" && (tool == "*" || tool == "run_shell_command") {
			policy.WriteString("allowRedirection = true\n")
		}
		policy.WriteByte('\n')
	}
	for _, text := range in.Permissions.Deny {
		rule(text, "deny", 999)
	}
	for _, text := range in.Permissions.Allow {
		rule(text, "allow", 998)
	}
	if in.Permissions.SkipAll {
		rule("*", "allow", 997)
	}
	if policy.Len() > 0 {
		s.Files = append(s.Files, forage.File{Path: path.Join(in.Dir, "policies/forage.toml"), Content: []byte(policy.String())})
	}
	return s
}
