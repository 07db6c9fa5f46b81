package inject

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage"
	"forage/internal/config"
	"forage/internal/provider"
	"forage/internal/testdir"
)

func TestMerge(t *testing.T) {
	one := Contribution{From: "one", Env: map[string]string{"A": "1"}, Path: []string{"/x"}, Git: "[a]\n",
		Files: []forage.File{{Path: "/f", Content: []byte("f")}}}
	two := Contribution{From: "two", Env: map[string]string{"A": "1", "B": "2"}, Path: []string{"/y", "/x"}, Git: "[b]\n",
		Files: []forage.File{{Path: "/f", Content: []byte("f")}, {Path: "/g"}}}
	got, err := Merge(one, two)
	testdir.Must(t, err)
	want := Contribution{Env: map[string]string{"A": "1", "B": "2"}, Path: []string{"/x", "/y"}, Git: "[a]\n[b]\n",
		Files: []forage.File{{Path: "/f", Content: []byte("f")}, {Path: "/g"}}}
	testdir.Same(t, "", want, got)
	for what, other := range map[string]Contribution{
		"the variable A": {From: "three", Env: map[string]string{"A": "2"}},
		"the file /f":    {From: "three", Files: []forage.File{{Path: "/f", Content: []byte("f"), Owned: true}}},
	} {
		_, err := Merge(one, two, other)
		if !errors.Is(err, forage.ErrUsage) || !strings.Contains(err.Error(), what+" is set by both one and three") {
			t.Errorf("%v", err)
		}
	}
}

func TestPlaceholders(t *testing.T) {
	agents := []forage.Agent{
		{Command: []string{"a"}, Secret: "model", AuthEnvVar: "MY_KEY", BaseURLEnvVar: "MY_URL"},
		{Command: []string{"b"}, Secret: "other", AuthEnvVar: "OTHER_KEY", BaseURLEnvVar: "OTHER_URL"},
	}
	bind := func(name string, secret config.Secret) (forage.Binding, provider.Service) {
		b, err := Binding(name, secret, Scope{Sandbox: "box", Home: "/home/me"})
		testdir.Must(t, err)
		b.Placeholder = "PLACEHOLDER"
		return b, ServiceOf(name, secret)
	}
	for name, test := range map[string]struct {
		secret config.Secret
		want   map[string]string
	}{
		"key": {config.Secret{Env: "X", Preset: "anthropic"}, map[string]string{
			"ANTHROPIC_API_KEY": "PLACEHOLDER", "MY_KEY": "PLACEHOLDER", "MY_URL": "http://127.0.0.1:18080/anthropic",
		}},
		"key of a service whose addresses have a path": {config.Secret{Env: "X", Preset: "openai"}, map[string]string{
			"OPENAI_API_KEY": "PLACEHOLDER", "CODEX_API_KEY": "PLACEHOLDER", "MY_KEY": "PLACEHOLDER", "MY_URL": "http://127.0.0.1:18080/openai/v1",
		}},
		"key for another host": {config.Secret{Env: "X", Preset: "anthropic", Hosts: []string{"llm.test"}}, map[string]string{
			"MY_KEY": "PLACEHOLDER", "MY_URL": "http://127.0.0.1:18080/anthropic",
		}},
		"login": {config.Secret{Login: forage.LoginClaude}, map[string]string{"MY_URL": "http://127.0.0.1:18080/anthropic"}},
	} {
		b, service := bind("model", test.secret)
		got, err := Placeholders(b, service, agents)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		testdir.Same(t, name, test.want, got.Env)
	}
	b, service := bind("aws", config.Secret{Env: "X"})
	b.Placeholder = "ID:KEY"
	got, err := Placeholders(b, service, nil)
	if diff := cmp.Diff(map[string]string{"AWS_ACCESS_KEY_ID": "ID", "AWS_SECRET_ACCESS_KEY": "KEY"}, got.Env); diff != "" || err != nil {
		t.Errorf("a key that signs: %v %s", err, diff)
	}
	testdir.Same(t, "", []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}, Variables("aws", service, nil))
	b, service = bind("other", config.Secret{Env: "X", Hosts: []string{"a.test"}, Place: forage.PlaceBearer})
	if _, err := Placeholders(b, service, agents); !errors.Is(err, forage.ErrUsage) || !strings.Contains(err.Error(), "OTHER_URL") {
		t.Errorf("no gateway: %v", err)
	}
}

func TestAutomatic(t *testing.T) {
	home := t.TempDir()
	env := map[string]string{}
	getenv := func(name string) (string, bool) { value, ok := env[name]; return value, ok }
	expect := func(what, name string, want config.Secret, wantOK bool) {
		t.Helper()
		got, ok := Automatic(name, home, getenv)
		if diff := cmp.Diff(want, got); diff != "" || ok != wantOK {
			t.Errorf("%s: %v %s", what, ok, diff)
		}
	}
	expect("nothing", "anthropic", config.Secret{}, false)
	file := filepath.Join(home, ".claude/.credentials.json")
	testdir.Must(t, os.MkdirAll(file, 0o700))
	expect("a folder", "anthropic", config.Secret{}, false)
	testdir.Must(t, errors.Join(os.Remove(file), os.WriteFile(file, nil, 0o600)))
	login := config.Secret{Login: forage.LoginClaude, LoginFile: file, Preset: "anthropic"}
	expect("a login", "anthropic", login, true)
	env["ANTHROPIC_API_KEY"] = ""
	expect("an empty variable", "anthropic", login, true)
	env["ANTHROPIC_API_KEY"] = "x"
	expect("a key", "anthropic", config.Secret{Env: "ANTHROPIC_API_KEY", Preset: "anthropic"}, true)
	expect("no service", "unknown", config.Secret{}, false)
}

// TestWrapper runs the script in a real shell, with a command whose name and secret try to be more.
func TestWrapper(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("needs a shell")
	}
	dir := t.TempDir()
	secret := filepath.Join(dir, "it's a secret")
	value := `sk-"$(id)` + "`id`" + `'\ x`
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		testdir.Must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), mode)))
	}
	write(secret, value, 0o600)
	for _, name := range []string{"agent", "an agent", "it's"} {
		write(filepath.Join(dir, "real", name), "#!/bin/sh\nprintf '%s|' \"$@\"; printf %s \"$KEY\"\n", 0o700)
		write(filepath.Join(dir, "other", name), "not executable", 0o600)
		for what, command := range map[string]string{"by name": name, "by path": filepath.Join(dir, "real", name)} {
			script := filepath.Join(dir, "wrapper")
			write(script, wrapper(command, "KEY", secret), 0o700)
			cmd := exec.CommandContext(t.Context(), script, "a b", "*")
			cmd.Env = []string{"PATH=" + WrapperPath + ":" + dir + "/other:" + dir + "/real:/usr/bin:/bin"}
			out, err := cmd.CombinedOutput()
			if want := "a b|*|" + value; err != nil || string(out) != want {
				t.Errorf("%s %s: %v: %q, want %q", name, what, err, out, want)
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "wrapper"))
	write(filepath.Join(dir, "wrapper"), wrapper("absent", "KEY", secret), 0o700)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 127 || strings.Contains(string(out), "sk-") {
		t.Errorf("an absent command: %v %s", err, out)
	}
}

func TestWrappers(t *testing.T) {
	agents := []forage.Agent{
		{Command: []string{"/opt/bin/agent", "-x"}, Secret: "key", AuthEnvVar: "KEY"},
		{Command: []string{"other"}, Secret: "another", AuthEnvVar: "OTHER"},
		{Command: []string{"plain"}, Secret: "key"},
	}
	got := Wrappers(forage.Binding{Secret: "key"}, agents)
	if len(got.Files) != 1 || got.Files[0].Path != "/run/forage/wrappers/agent" || got.Files[0].Mode != 0o555 {
		t.Errorf("%+v", got.Files)
	}
	testdir.Same(t, "", []string{WrapperPath}, got.Path)
}
