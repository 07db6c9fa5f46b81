package plan

import (
	"maps"
	"testing"

	"forage/internal/testdir"
)

// With a key, the hosts at which accounts log in are not allowed by a built-in template.
func TestNarrowed(t *testing.T) {
	for name, test := range map[string]struct {
		config string
		env    map[string]string
		opts   Options
		want   []string
	}{
		"no credential":           {opts: Options{Template: "codex"}, want: []string{"api.openai.com", "auth.openai.com", "chatgpt.com"}},
		"a key":                   {env: map[string]string{"OPENAI_API_KEY": "sk-value"}, opts: Options{Template: "codex"}, want: []string{"api.openai.com"}},
		"a key, and a flag":       {env: map[string]string{"OPENAI_API_KEY": "sk-value"}, opts: Options{Template: "codex", Allow: []string{"chatgpt.com"}}, want: []string{"api.openai.com", "chatgpt.com"}},
		"a key that is inside":    {config: "[templates.codex]\nsecretMode = \"wrapper\"\n", env: map[string]string{"OPENAI_API_KEY": "sk-value"}, opts: Options{Template: "codex"}, want: []string{"api.openai.com", "auth.openai.com", "chatgpt.com"}},
		"hosts that a file names": {config: "[templates.codex]\nallowedHosts = [\"api.openai.com\", \"chatgpt.com\"]\n", env: map[string]string{"OPENAI_API_KEY": "sk-value"}, opts: Options{Template: "codex"}, want: []string{"api.openai.com", "chatgpt.com"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			maps.Copy(d.env, test.env)
			plan, _, err := d.plan(test.config, test.opts)
			testdir.Must(t, err)
			testdir.Same(t, "", test.want, plan.Network.Allow)
		})
	}
}

// What policy test says of such a host is what a sandbox does.
func TestExplainIsNarrowed(t *testing.T) {
	d := newDesk(t)
	d.env["OPENAI_API_KEY"] = "sk-value"
	h := d.host("")
	for url, want := range map[string]bool{"https://api.openai.com/": true, "https://chatgpt.com/": false} {
		e, err := h.Explain("codex", "GET", url, "")
		if err != nil || (e.Verdict.String() == "allow") != want {
			t.Errorf("%s: %v, %v", url, e.Verdict, err)
		}
	}
}
