package agent

import (
	"cmp"
	"slices"

	"forage"
)

// opencodeInstructions is the file that opencode reads beside its own, wherever it works.
const opencodeInstructions = "/etc/opencode/forage.md"

// opencode is opencode. The user's provider decides what it asks for, and with whose key: built in
// are OpenAI, and its own gateway.
func opencode() Agent {
	return Agent{
		Name:       "opencode",
		About:      "opencode, with OpenAI's API and its own gateway",
		Install:    "npm install -g opencode-ai",
		Command:    []string{"opencode"},
		Headless:   []string{"opencode", "run"},
		Resume:     []string{"opencode", "-c"},
		Hosts:      []string{"api.openai.com", "models.dev", "opencode.ai"},
		Secret:     "openai",
		AuthEnvVar: "OPENAI_API_KEY",
		Quiet: map[string]string{
			"OPENCODE_DISABLE_AUTOUPDATE":      "1",
			"OPENCODE_DISABLE_AUTOUPDATER":     "1",
			"OPENCODE_DISABLE_MODELS_FETCH":    "1",
			"OPENCODE_DISABLE_LSP_DOWNLOAD":    "1",
			"OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
		},
		Settings:     opencodeSettings,
		Rules:        "bash(git push *)",
		Instructions: []string{opencodeInstructions},
		Config: Config{
			Host: ".config/opencode", Inside: "~/.config/opencode",
			Copy:    []string{"AGENTS.md", "command", "commands", "agent", "agents", "skill", "skills", "themes"},
			File:    "opencode.json",
			Keys:    []string{"model", "small_model", "theme", "keybinds", "share", "default_agent"},
			Servers: Servers{Key: "mcp"},
		},
	}
}

func opencodeSettings(in Inside) Settings {
	system := map[string]any{
		"$schema":      "https://opencode.ai/config.json",
		"autoupdate":   false,
		"instructions": []any{opencodeInstructions},
	}
	if rules := opencodeRules(in.Permissions); len(rules) > 0 {
		system["permission"] = rules
	}
	if len(in.Servers) > 0 {
		system["mcp"] = in.Servers
	}
	return Settings{Files: []forage.File{jsonFile("/etc/opencode/opencode.json", over(in.Own, system), false)}}
}

// opencodeRules has what is denied last: the last rule that fits counts.
func opencodeRules(p forage.Permissions) ordered {
	var all ordered
	if p.SkipAll {
		all = append(all, member{"*", "allow"})
	}
	for _, r := range []struct {
		action string
		rules  []string
	}{{"allow", p.Allow}, {"deny", p.Deny}} {
		for _, text := range r.rules {
			tool, pattern := rule(text)
			pattern = cmp.Or(pattern, "*")
			at := slices.IndexFunc(all, func(m member) bool { return m.key == tool })
			if at < 0 {
				at = len(all)
				all = append(all, member{tool, ordered(nil)})
				if p.SkipAll {
					all[at].value = ordered{{"*", "allow"}}
				}
			}
			if rules, ok := all[at].value.(ordered); ok {
				all[at].value = append(rules, member{pattern, r.action})
			} else { // "*"
				all[at].value = r.action
			}
		}
	}
	return all
}
