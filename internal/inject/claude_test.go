package inject

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage"
)

func TestClaudeSettings(t *testing.T) {
	claude := forage.Agent{Command: []string{"/opt/bin/claude", "--verbose"}, Secret: "anthropic"}
	key := forage.Binding{Secret: "anthropic", Placeholder: "sk-ant-api03-placeholder-12345678901234567890"}
	login := key
	login.Source.Login = &forage.Login{Kind: forage.LoginClaude}
	for name, test := range map[string]struct {
		binding forage.Binding
		agent   forage.Agent
		want    string // "" is no file
	}{
		"a key":            {key, claude, `{"customApiKeyResponses":{"approved":["12345678901234567890"],"rejected":[]},"hasCompletedOnboarding":true}`},
		"a login":          {login, claude, ""},
		"another agent":    {key, forage.Agent{Command: []string{"codex"}, Secret: "anthropic"}, ""},
		"no command":       {key, forage.Agent{Secret: "anthropic"}, ""},
		"another's secret": {forage.Binding{Secret: "github", Placeholder: key.Placeholder}, claude, ""},
	} {
		var want []forage.File
		if test.want != "" {
			want = []forage.File{{Path: "/home/me/.claude.json", Content: []byte(test.want), Mode: 0o600, Owned: true}}
		}
		got := ClaudeSettings(test.binding, []forage.Agent{test.agent}, "/home/me")
		if diff := cmp.Diff(want, got.Files); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
