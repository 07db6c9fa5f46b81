package inject

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage"
	"forage/internal/config"
	"forage/internal/provider"
	"forage/internal/testdir"
)

func TestBinding(t *testing.T) {
	scope := Scope{Sandbox: "box", Home: "/home/me"}
	lookup := func(name string) provider.Service {
		p, ok := provider.Lookup(name)
		if !ok {
			t.Fatalf("no preset %s", name)
		}
		return p
	}
	for name, test := range map[string]struct {
		secret string
		config config.Secret
		source forage.SecretSource
		uses   []forage.SecretUse
	}{
		"preset of its name": {
			secret: "anthropic", config: config.Secret{Env: "KEY"},
			source: forage.SecretSource{Env: "KEY"}, uses: lookup("anthropic").Uses,
		},
		"preset that it names": {
			secret: "work", config: config.Secret{File: "/key", Preset: "openai"},
			source: forage.SecretSource{File: "/key"}, uses: lookup("openai").Uses,
		},
		"preset at a host of one's own": {
			secret: "model", config: config.Secret{Command: []string{"pass", "show", "x"}, Preset: "anthropic", Hosts: []string{"llm.example.com"}},
			source: forage.SecretSource{Command: []string{"pass", "show", "x"}},
			uses:   []forage.SecretUse{{Hosts: []string{"llm.example.com"}, Place: forage.PlaceHeader, Name: "X-Api-Key", Gateway: "anthropic"}},
		},
		"github in a company: one host, a password": {
			secret: "ghe", config: config.Secret{Keyring: "a/b", Preset: "github", Hosts: []string{"git.example.com"}},
			source: forage.SecretSource{Keyring: "a/b"},
			uses:   []forage.SecretUse{{Hosts: []string{"git.example.com"}, Place: forage.PlaceBasic, User: "x-access-token"}},
		},
		"gitlab in a company: header and password": {
			secret: "gitlab", config: config.Secret{Env: "T", Hosts: []string{"git.example.com"}},
			source: forage.SecretSource{Env: "T"},
			uses: []forage.SecretUse{
				{Hosts: []string{"git.example.com"}, Place: forage.PlaceHeader, Name: "Private-Token"},
				{Hosts: []string{"git.example.com"}, Place: forage.PlaceBasic, User: "oauth2"},
			},
		},
		"preset with another place": {
			secret: "gemini", config: config.Secret{Env: "G", Place: forage.PlaceQuery, Query: "key"},
			source: forage.SecretSource{Env: "G"},
			uses: []forage.SecretUse{{Hosts: []string{"generativelanguage.googleapis.com"}, Place: forage.PlaceQuery, Name: "key",
				Gateway: "gemini"}},
		},
		"all one's own": {
			secret: "x", config: config.Secret{Env: "X", Hosts: []string{"a.test", "*.b.test:8443"}, Header: "X-Key", Format: "key {}"},
			source: forage.SecretSource{Env: "X"},
			uses:   []forage.SecretUse{{Hosts: []string{"a.test", "*.b.test:8443"}, Place: forage.PlaceHeader, Name: "X-Key", Format: "key {}"}},
		},
		"a header without a name": {
			secret: "x", config: config.Secret{Env: "X", Hosts: []string{"a.test"}, Format: "Token {}"},
			source: forage.SecretSource{Env: "X"},
			uses:   []forage.SecretUse{{Hosts: []string{"a.test"}, Place: forage.PlaceHeader, Name: "Authorization", Format: "Token {}"}},
		},
		"placeholder": {
			secret: "x", config: config.Secret{Env: "X", Hosts: []string{"a.test"}, Place: forage.PlaceReplace, Header: "X-Two"},
			source: forage.SecretSource{Env: "X"},
			uses:   []forage.SecretUse{{Hosts: []string{"a.test"}, Place: forage.PlaceReplace, Name: "X-Two"}},
		},
		"a user says that it is a password": {
			secret: "x", config: config.Secret{Env: "X", Hosts: []string{"a.test"}, User: "me"},
			source: forage.SecretSource{Env: "X"},
			uses:   []forage.SecretUse{{Hosts: []string{"a.test"}, Place: forage.PlaceBasic, User: "me"}},
		},
		"a login in its usual place": {
			secret: "anthropic", config: config.Secret{Login: forage.LoginClaude},
			source: forage.SecretSource{Login: &forage.Login{Kind: forage.LoginClaude, File: "/home/me/.claude/.credentials.json"}},
			uses:   lookup("anthropic").LoginUses,
		},
		"a login by any name, elsewhere": {
			secret: "account", config: config.Secret{Login: forage.LoginChatGPT, LoginFile: "/srv/auth.json"},
			source: forage.SecretSource{Login: &forage.Login{Kind: forage.LoginChatGPT, File: "/srv/auth.json"}},
			uses:   lookup("openai").LoginUses,
		},
	} {
		b, err := Binding(test.secret, test.config, scope)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if b.Placeholder == "" || (b.Refresh != "") != (test.config.Login != "") {
			t.Errorf("%s: placeholders %q and %q", name, b.Placeholder, b.Refresh)
		}
		again, err := Binding(test.secret, test.config, scope)
		if diff := cmp.Diff(b, again); diff != "" || err != nil {
			t.Errorf("%s: not the same again: %v %s", name, err, diff)
		}
		other, err := Binding(test.secret, test.config, Scope{Sandbox: "other", Home: "/home/me"})
		if err != nil || other.Placeholder == b.Placeholder {
			t.Errorf("%s: two sandboxes have the placeholder %s (%v)", name, b.Placeholder, err)
		}
		b.Placeholder, b.Refresh = "", ""
		testdir.Same(t, name, forage.Binding{Secret: test.secret, Source: test.source, Uses: test.uses}, b)
	}
}

func TestBindingRefused(t *testing.T) {
	for name, test := range map[string]struct {
		config config.Secret
		want   string
	}{
		"no hosts":        {config.Secret{Env: "X"}, "where it may go"},
		"a place alone":   {config.Secret{Env: "X", Header: "X-Key"}, "where it may go"},
		"a login nowhere": {config.Secret{Login: "other"}, "usual place"},
	} {
		_, err := Binding("mine", test.config, Scope{Sandbox: "box", Home: "/home/me"})
		if !errors.Is(err, forage.ErrUsage) || !strings.Contains(err.Error(), test.want) || forage.Hint(err) == "" {
			t.Errorf("%s: %v (hint: %s)", name, err, forage.Hint(err))
		}
	}
}

// registry knows the hosts of every set.
func registry(set string) ([]string, error) {
	return []string{set + ".test:443", "other.test:443"}, nil
}

// TestRegistriesAreTheUsers: a registry's token goes where the user's tools publish to, and nowhere
// if that is not known.
func TestRegistriesAreTheUsers(t *testing.T) {
	for name, want := range map[string]string{"npm": "npm.test", "pypi": "upload.pypi.test"} {
		b, err := Binding(name, config.Secret{Env: "X"}, Scope{Sandbox: "box", Set: registry})
		if err != nil || len(b.Uses) != 1 || strings.Join(b.Uses[0].Hosts, " ") != want {
			t.Errorf("%s goes to %+v (%v), want %s", name, b.Uses, err, want)
		}
		if b, err := Binding(name, config.Secret{Env: "X"}, Scope{Sandbox: "box"}); err == nil {
			t.Errorf("%s goes to %+v, where no registry is known", name, b.Uses)
		}
	}
}

// TestPlaceholdersHaveTheirShape: agents look at how keys begin.
func TestPlaceholdersHaveTheirShape(t *testing.T) {
	for _, name := range provider.Names() {
		p, _ := provider.Lookup(name)
		b, err := Binding(name, config.Secret{Env: "X"}, Scope{Sandbox: "box", Set: registry})
		if err != nil || !strings.HasPrefix(b.Placeholder, p.Prefix) || len(b.Placeholder) < 20 {
			t.Errorf("%s: %q (%v)", name, b.Placeholder, err)
		}
	}
	for kind, prefix := range map[forage.LoginKind]string{forage.LoginClaude: "sk-ant-oat01-", forage.LoginChatGPT: "ey"} {
		b, err := Binding("login", config.Secret{Login: kind, LoginFile: "/f"}, Scope{Sandbox: "box"})
		if err != nil || !strings.HasPrefix(b.Placeholder, prefix) {
			t.Errorf("%s: %q (%v)", kind, b.Placeholder, err)
		}
	}
}
