package provider

import "forage"

// The hosts of package registries are those that the user's tools are configured for: SetMark and
// the set in the place of a name stand for its first host, where packages are published to.
const (
	npmHost  = "@npm"
	pypiHost = "upload.@pypi" // the index takes no uploads by its own name
)

// SetMark begins a set's name in a host of a service.
const SetMark = "@"

// services are all of them; a function, so that no caller can change them.
func services() []Service {
	return []Service{
		anthropic(), openai(), {
			Name: "gemini",
			Uses: []forage.SecretUse{{Hosts: []string{"generativelanguage.googleapis.com"}, Place: forage.PlaceHeader,
				Name: "X-Goog-Api-Key", Gateway: "gemini"}},
			Prefix: "AIza", Length: 39,
			Env: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"},
		}, {
			Name:   "openrouter",
			Uses:   []forage.SecretUse{{Hosts: []string{"openrouter.ai"}, Place: forage.PlaceBearer, Gateway: "openrouter"}},
			Prefix: "sk-or-v1-", Length: 73, Alphabet: "0123456789abcdef",
			Env: []string{"OPENROUTER_API_KEY"}, BasePath: "/api/v1",
		},
		github(), gitlab(),
		{
			Name:   "npm",
			Uses:   []forage.SecretUse{{Hosts: []string{npmHost}, Place: forage.PlaceBearer}},
			Prefix: "npm_", Length: 40,
			Env: []string{"NPM_TOKEN", "NODE_AUTH_TOKEN"},
		},
		{
			Name:   "pypi",
			Uses:   []forage.SecretUse{{Hosts: []string{pypiHost}, Place: forage.PlaceBasic, User: "__token__"}},
			Prefix: "pypi-AgEIcHlwaS5vcmc", Length: 179, // the prefix says in base64 whose token it is
			Env:  []string{"UV_PUBLISH_TOKEN", "TWINE_PASSWORD"},
			With: map[string]string{"TWINE_USERNAME": "__token__"},
		},
		{
			Name:   "amp",
			Uses:   []forage.SecretUse{{Hosts: []string{"ampcode.com", "*.ampcode.com"}, Place: forage.PlaceBearer}},
			Prefix: "sgamp_user_", Length: 101,
			Env: []string{"AMP_API_KEY"},
		},
		// aws has no variable of its own: a secret is a pair, which no one variable holds.
		{
			Name:   "aws",
			Uses:   []forage.SecretUse{{Hosts: []string{"*.amazonaws.com", "*.api.aws"}, Place: forage.PlaceSigV4}},
			Prefix: "AKIA", Length: 20, Alphabet: "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
		},
	}
}

// anthropic: a key goes in X-Api-Key, the token of a Claude account in
// Authorization; what else a client says to use an account (anthropic-beta) is kept.
func anthropic() Service {
	const host = "api.anthropic.com"
	return Service{
		Name: "anthropic",
		Uses: []forage.SecretUse{{Hosts: []string{host}, Place: forage.PlaceHeader, Name: "X-Api-Key", Gateway: "anthropic"}},
		LoginUses: []forage.SecretUse{
			{Hosts: []string{host}, Place: forage.PlaceBearer, Gateway: "anthropic"},
			tokenEndpoint("console.anthropic.com", "platform.claude.com"),
		},
		Prefix: "sk-ant-api03-", Length: 108,
		Env:   []string{"ANTHROPIC_API_KEY"},
		Login: forage.LoginClaude, LoginFile: ".claude/.credentials.json",
	}
}

// openai: an account of ChatGPT is used at chatgpt.com, a key at api.openai.com.
func openai() Service {
	const host = "api.openai.com"
	return Service{
		Name: "openai",
		Uses: []forage.SecretUse{{Hosts: []string{host}, Place: forage.PlaceBearer, Gateway: "openai"}},
		LoginUses: []forage.SecretUse{
			{Hosts: []string{"chatgpt.com"}, Place: forage.PlaceBearer, Gateway: "chatgpt"},
			{Hosts: []string{host}, Place: forage.PlaceBearer, Gateway: "openai"},
			tokenEndpoint("auth.openai.com"),
		},
		Prefix: "sk-proj-", Length: 164,
		Env: []string{"OPENAI_API_KEY", "CODEX_API_KEY"}, BasePath: "/v1",
		Login: forage.LoginChatGPT, LoginFile: ".codex/auth.json",
	}
}

// tokenEndpoint is the use of a login at a host that renews it: its answers are
// ours, and anything else there gets the token only where it shows the placeholder.
func tokenEndpoint(hosts ...string) forage.SecretUse {
	return forage.SecretUse{Hosts: hosts, Place: forage.PlaceReplace, Name: "Authorization"}
}

// github: git knows only passwords, for which any user will do; the API takes either,
// and documents the bearer.
func github() Service {
	return Service{
		Name: "github",
		Uses: []forage.SecretUse{
			{Hosts: []string{"api.github.com", "uploads.github.com", "raw.githubusercontent.com", "*.githubcopilot.com"}, Place: forage.PlaceBearer},
			{Hosts: []string{"github.com", "gist.github.com", "codeload.github.com"}, Place: forage.PlaceBasic, User: "x-access-token"},
		},
		Prefix: "ghp_", Length: 40,
		Env: []string{"GH_TOKEN", "GITHUB_TOKEN"},
	}
}

// gitlab has its API and git on one host: the API looks at PRIVATE-TOKEN first and
// takes no password, git takes nothing but a password, so requests carry both.
func gitlab() Service {
	return Service{
		Name: "gitlab",
		Uses: []forage.SecretUse{
			{Hosts: []string{"gitlab.com"}, Place: forage.PlaceHeader, Name: "Private-Token"},
			{Hosts: []string{"gitlab.com"}, Place: forage.PlaceBasic, User: "oauth2"},
		},
		Prefix: "glpat-", Length: 26,
		Env: []string{"GITLAB_TOKEN"},
	}
}
