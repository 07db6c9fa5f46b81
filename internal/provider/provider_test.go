package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"forage"
	"forage/internal/egress/credential"
	"forage/internal/provider"
	"forage/internal/secrets"
	"forage/internal/testdir"
)

func TestPresetsCompile(t *testing.T) {
	for _, name := range provider.Names() {
		p, ok := provider.Lookup(name)
		if !ok {
			t.Fatalf("%s has a name, and is not found by it", name)
		}
		for kind, uses := range map[string][]forage.SecretUse{"key": p.Uses, "login": p.LoginUses} {
			source, err := secrets.Open(t.Context(), forage.SecretSource{Env: "X"}, nil)
			testdir.Must(t, err)
			_, err = credential.Compile([]forage.Binding{{Secret: name, Placeholder: provider.Placeholder(p, "box", name), Uses: found(uses)}},
				map[string]secrets.Source{name: source})
			if err != nil {
				t.Errorf("%s, %s: %v", name, kind, err)
			}
		}
		if (p.Login != "") != (len(p.LoginUses) > 0) || (p.Login != "") != (p.LoginFile != "") {
			t.Errorf("%s is a login in one respect and not in another: %+v", name, p)
		}
	}
	if _, ok := provider.Lookup("nobody"); ok {
		t.Error("a service that is none is found")
	}
}

// found is uses with hosts in the place of the sets that the user's tools tell.
func found(uses []forage.SecretUse) []forage.SecretUse {
	for _, use := range uses {
		for i, host := range use.Hosts {
			use.Hosts[i] = strings.Replace(host, provider.SetMark, "registry-", 1) + ".test"
			if !strings.Contains(host, provider.SetMark) {
				use.Hosts[i] = host
			}
		}
	}
	return uses
}

// All services together are what a sandbox gets that names every secret.
func TestPresetsDoNotOverlap(t *testing.T) {
	var bindings []forage.Binding
	sources := map[string]secrets.Source{}
	for _, name := range provider.Names() {
		p, _ := provider.Lookup(name)
		bindings = append(bindings, forage.Binding{Secret: name, Placeholder: provider.Placeholder(p, "box", name), Uses: found(p.Uses)})
		sources[name], _ = secrets.Open(t.Context(), forage.SecretSource{Env: "X"}, nil)
	}
	if _, err := credential.Compile(bindings, sources); err != nil {
		t.Error(err)
	}
}

func TestPlaceholdersHaveTheShapeOfTheValue(t *testing.T) {
	for name, want := range map[string]string{
		"anthropic": "sk-ant-api03- 108", "openai": "sk-proj- 164", "gemini": "AIza 39", "github": "ghp_ 40", "gitlab": "glpat- 26",
		"npm": "npm_ 40", "pypi": "pypi-AgEIcHlwaS5vcmc 179", "openrouter": "sk-or-v1- 73", "aws": "AKIA 61",
	} {
		p, _ := provider.Lookup(name)
		text := provider.Placeholder(p, "box", name)
		if got := fmt.Sprintf("%s %d", p.Prefix, len(text)); got != want || !strings.HasPrefix(text, p.Prefix) {
			t.Errorf("%s: the placeholder %q has prefix and length %s, want %s", name, text, got, want)
		}
	}
}

func TestPlaceholdersAreDerived(t *testing.T) {
	p, _ := provider.Lookup("github")
	same := provider.Placeholder(p, "box", "github")
	if again := provider.Placeholder(p, "box", "github"); again != same {
		t.Errorf("the same names gave %q and %q", same, again)
	}
	for _, names := range [][2]string{{"box", "git"}, {"boxgit", "hub"}, {"other", "github"}} {
		if other := provider.Placeholder(p, names[0], names[1]); other == same {
			t.Errorf("%v has the placeholder of box, github", names)
		}
	}
	if text := provider.Placeholder(provider.Service{}, "box", "work"); !strings.HasPrefix(text, "forage-placeholder-") || len(text) != 51 {
		t.Errorf("without a service the placeholder is %q", text)
	}
}

func TestEnviron(t *testing.T) {
	github, _ := provider.Lookup("github")
	testdir.Same(t, "github", map[string]string{"GH_TOKEN": "ghp_x", "GITHUB_TOKEN": "ghp_x"}, github.Environ("ghp_x"))
	pypi, _ := provider.Lookup("pypi")
	testdir.Same(t, "pypi", map[string]string{"UV_PUBLISH_TOKEN": "x", "TWINE_PASSWORD": "x", "TWINE_USERNAME": "__token__"}, pypi.Environ("x"))
	aws, _ := provider.Lookup("aws")
	want := map[string]string{"AWS_ACCESS_KEY_ID": "AKIAX", "AWS_SECRET_ACCESS_KEY": "y"}
	testdir.Same(t, "aws", want, aws.Environ("AKIAX:y"))
}

func TestForLogin(t *testing.T) {
	for kind, want := range map[forage.LoginKind]string{forage.LoginClaude: "anthropic", forage.LoginChatGPT: "openai"} {
		if p, ok := provider.ForLogin(kind); !ok || p.Name != want {
			t.Errorf("the login %s is %q's, want %s", kind, p.Name, want)
		}
	}
	if _, ok := provider.ForLogin(""); ok {
		t.Error("a login of no kind has a service")
	}
}
