package agent

import "forage"

// aiderInstructions is a file that aider is told to read.
const aiderInstructions = "/etc/aider/forage.md"

// aider is aider, whose settings are all variables. It knows no rules about single commands.
func aider() Agent {
	return Agent{
		Name:       "aider",
		About:      "aider, with OpenAI's API",
		Install:    "python3 -m pip install aider-install && aider-install",
		Command:    []string{"aider"},
		Headless:   []string{"aider", "-m"},
		Resume:     []string{"aider", "--restore-chat-history"},
		Hosts:      []string{"api.openai.com"},
		Secret:     "openai",
		AuthEnvVar: "OPENAI_API_KEY",
		Quiet: map[string]string{
			"AIDER_CHECK_UPDATE":           "false",
			"AIDER_ANALYTICS_DISABLE":      "true",
			"AIDER_SHOW_RELEASE_NOTES":     "false",
			"LITELLM_LOCAL_MODEL_COST_MAP": "True",
		},
		Settings: func(in Inside) Settings {
			s := Settings{Env: map[string]string{"AIDER_GITIGNORE": "false", "AIDER_READ": aiderInstructions}}
			if in.Permissions.SkipAll {
				s.Env["AIDER_YES_ALWAYS"] = "true"
			}
			return s
		},
		Instructions: []string{aiderInstructions},
	}
}

// copilot is GitHub Copilot CLI.
func copilot() Agent {
	return Agent{
		Name:       "copilot",
		About:      "GitHub Copilot CLI",
		Install:    "npm install -g @github/copilot",
		Command:    []string{"copilot"},
		Headless:   []string{"copilot", "-p"},
		Resume:     []string{"copilot", "--continue"},
		Hosts:      []string{"api.github.com", "*.githubcopilot.com"},
		Secret:     "github",
		AuthEnvVar: "COPILOT_GITHUB_TOKEN",
		Quiet:      map[string]string{"COPILOT_AUTO_UPDATE": "false"},
		Settings: func(in Inside) Settings {
			var s Settings
			if in.Permissions.SkipAll {
				s.Env = map[string]string{"COPILOT_ALLOW_ALL": "true"}
			}
			for _, tool := range in.Permissions.Allow {
				s.Args = append(s.Args, "--allow-tool="+tool)
			}
			for _, tool := range in.Permissions.Deny {
				s.Args = append(s.Args, "--deny-tool="+tool)
			}
			return s
		},
		Rules:        "shell(git push)",
		Instructions: []string{"~/.copilot/copilot-instructions.md"},
		Config: Config{
			Host: ".copilot", Inside: "~/.copilot",
			Copy: []string{"copilot-instructions.md", "skills", "agents"},
		},
	}
}

// amp is Amp. /etc/ampcode has the machine's settings, which go over the user's.
func amp() Agent {
	return Agent{
		Name:       "amp",
		About:      "Amp, with its own service",
		Install:    "npm install -g @sourcegraph/amp",
		Command:    []string{"amp"},
		Headless:   []string{"amp", "-x"},
		Resume:     []string{"amp", "threads", "continue"},
		Hosts:      []string{"ampcode.com", "*.ampcode.com"},
		Secret:     "amp",
		AuthEnvVar: "AMP_API_KEY",
		Quiet:      map[string]string{"AMP_SKIP_UPDATE_CHECK": "1"},
		Settings: func(in Inside) Settings {
			settings := map[string]any{"amp.updates.mode": "disabled"}
			if in.Permissions.SkipAll {
				settings["amp.dangerouslyAllowAll"] = true
			}
			var rules []any
			for _, r := range []struct {
				action string
				rules  []string
			}{{"reject", in.Permissions.Deny}, {"allow", in.Permissions.Allow}} {
				for _, text := range r.rules {
					tool, command := rule(text)
					entry := map[string]any{"tool": tool, "action": r.action}
					if command != "" {
						entry["matches"] = map[string]any{"cmd": command}
					}
					rules = append(rules, entry)
				}
			}
			if len(rules) > 0 {
				settings["amp.permissions"] = rules
			}
			return Settings{Files: []forage.File{jsonFile("/etc/ampcode/managed-settings.json", settings, false)}}
		},
		Rules:        "Bash(git push*)",
		Instructions: []string{"~/.config/amp/AGENTS.md"},
		Config: Config{
			Host: ".config/amp", Inside: "~/.config/amp",
			Copy: []string{"AGENTS.md", "skills", "commands"},
		},
	}
}
