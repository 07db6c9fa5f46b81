package inject

import (
	"encoding/json"
	"path"
	"slices"

	"forage"
)

// claudeKeyEnd is how much of a key Claude Code (version 2.1) remembers of one that it may use: its last bytes.
const claudeKeyEnd = 20

// ClaudeSettings are the settings with which Claude Code begins to work in a terminal: without them it asks for
// a theme first, and whether it may use the key that it finds in its environment, which is the
// placeholder. Nothing comes of a binding that is no key of Claude Code's: logins have settings of
// their own (see login.Inside). home is the one inside.
func ClaudeSettings(b forage.Binding, agents []forage.Agent, home string) Contribution {
	isClaude := func(a forage.Agent) bool {
		return a.Secret == b.Secret && len(a.Command) > 0 && path.Base(a.Command[0]) == "claude"
	}
	if b.Source.Login != nil || !slices.ContainsFunc(agents, isClaude) {
		return Contribution{}
	}
	settings, err := json.Marshal(map[string]any{
		"hasCompletedOnboarding": true,
		"customApiKeyResponses":  map[string]any{"approved": []string{b.Placeholder[max(0, len(b.Placeholder)-claudeKeyEnd):]}, "rejected": []string{}},
	})
	if err != nil {
		panic(err) // strings and maps of them always marshal
	}
	return Contribution{
		From:  "secret " + b.Secret,
		Files: []forage.File{{Path: path.Join(home, ".claude.json"), Content: settings, Mode: 0o600, Owned: true}},
	}
}
