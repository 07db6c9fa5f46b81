package egressconfig

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"forage"
	"forage/internal/testdir"
)

func bearer(secret string, source forage.SecretSource, hosts ...string) forage.Binding {
	return forage.Binding{Secret: secret, Source: source, Placeholder: "placeholder-of-" + secret,
		Uses: []forage.SecretUse{{Hosts: hosts, Place: forage.PlaceBearer}}}
}

func TestSources(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	testdir.Must(t, os.WriteFile(file, []byte("of the file\n"), 0o600))
	bindings := []forage.Binding{
		bearer("file", forage.SecretSource{File: file}, "a.test"),
		bearer("env", forage.SecretSource{Env: "KEY"}, "b.test"),
		bearer("absent", forage.SecretSource{Env: "NONE"}, "c.test"),
	}
	testdir.Same(t, "", []string{"KEY", "NONE"}, EnvWanted(bindings))
	sources, err := Sources(t.Context(), bindings, map[string]string{"KEY": "of the caller"}, nil, nil)
	testdir.Must(t, err)
	for name, want := range map[string]string{"file": "of the file", "env": "of the caller"} {
		if value, err := sources[name].Get(t.Context()); err != nil || value.Reveal() != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := sources["absent"].Get(t.Context()); err == nil || !strings.Contains(err.Error(), "NONE") {
		t.Errorf("absent: %v", err)
	}
	if _, err := Sources(t.Context(), []forage.Binding{bearer("none", forage.SecretSource{}, "a.test")}, nil, nil, nil); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("no source: %v", err)
	}
}

func TestCheckSecrets(t *testing.T) {
	one, two := bearer("one", forage.SecretSource{Env: "A"}, "a.test"), bearer("two", forage.SecretSource{Env: "B"}, "b.test", "a.test")
	if err := CheckSecrets([]forage.Binding{one}); err != nil {
		t.Error(err)
	}
	if err := CheckSecrets([]forage.Binding{one, two}); err == nil || !strings.Contains(err.Error(), "a.test") {
		t.Errorf("two for one host: %v", err)
	}
}

// TestLoginAnswersItsSandbox: what is wrong with a login is for the user; the sandbox
// hears that there is none now.
func TestLoginAnswersItsSandbox(t *testing.T) {
	b := forage.Binding{Secret: "account", Placeholder: "access", Refresh: "refresh", Source: forage.SecretSource{
		Login: &forage.Login{Kind: forage.LoginClaude, File: filepath.Join(t.TempDir(), "none.json")},
	}}
	var told []string
	sources, err := Sources(t.Context(), []forage.Binding{b}, nil, func() http.RoundTripper { return http.DefaultTransport },
		func(secret string, err error) { told = append(told, secret+": "+err.Error()) })
	testdir.Must(t, err)
	ask := func(url string) (*http.Response, bool) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url,
			bytes.NewReader([]byte(`{"grant_type":"refresh_token","refresh_token":"refresh"}`)))
		testdir.Must(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Host = "somewhere.else"
		return sources["account"].(interface {
			Answer(*http.Request) (*http.Response, bool)
		}).Answer(r)
	}
	answer, ok := ask("https://console.anthropic.com/v1/oauth/token")
	if !ok || answer.StatusCode < 500 {
		t.Fatalf("%v %+v", ok, answer)
	}
	defer answer.Body.Close()
	var body bytes.Buffer
	body.ReadFrom(answer.Body)
	if strings.Contains(body.String(), "none.json") {
		t.Errorf("the sandbox hears of the host: %s", body.String())
	}
	if !slices.ContainsFunc(told, func(line string) bool {
		return strings.HasPrefix(line, "account: ") && strings.Contains(line, "none.json")
	}) {
		t.Errorf("the user hears %q", told)
	}
	if answer, ok := ask("https://api.anthropic.com/v1/messages"); ok {
		t.Errorf("a request that is none of its business: %+v", answer)
	}
}
