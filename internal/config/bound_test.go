package config_test

import "testing"

// TestBoundSecrets: what can be bound together is taken.
func TestBoundSecrets(t *testing.T) {
	for name, text := range map[string]string{
		"no template":       "[secrets.a]\nenv = 'X'\n",
		"another port":      "[secrets.a]\nenv = 'X'\nhosts = ['a.test']\ninject = 'bearer'\n[secrets.b]\nenv = 'X'\nhosts = ['a.test:8443']\ninject = 'bearer'\n[templates.x]\nsecrets = ['a', 'b']",
		"below it":          "[secrets.a]\nenv = 'X'\nhosts = ['a.test']\ninject = 'bearer'\n[secrets.b]\nenv = 'X'\nhosts = ['*.a.test']\ninject = 'bearer'\n[templates.x]\nsecrets = ['a', 'b']",
		"named twice":       "[secrets.github]\nenv = 'X'\n[templates.x]\nsecrets = ['github', 'github']",
		"two templates":     "[secrets.github]\nenv = 'X'\n[secrets.other]\nenv = 'Y'\npreset = 'github'\n[templates.x]\nsecrets = ['github']\n[templates.y]\nsecrets = ['other']",
		"not configured":    "[secrets.b]\nenv = 'Y'\npreset = 'anthropic'\n[templates.claude]\nsecrets = ['b']",
		"wrappers":          "[secrets.github]\nenv = 'X'\n[secrets.other]\nenv = 'Y'\npreset = 'github'\n[templates.x]\nsecrets = ['github', 'other']\nsecretMode = 'wrapper'",
		"a variable's own":  "[secrets.anthropic]\nenv = 'X'\n[secrets.b]\nenv = 'Y'\nhosts = ['api.anthropic.com']\nheader = 'X-Key'\n[templates.claude]\nsecrets = ['b']\nenv = { ANTHROPIC_API_KEY = 'mine' }",
		"a login elsewhere": "[secrets.a]\nlogin = 'chatgpt'\nloginFile = '/x'\n[secrets.b]\nenv = 'Y'\npreset = 'anthropic'\n[templates.x]\nsecrets = ['a', 'b']",
	} {
		if _, err := load(t, "config.toml", text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
