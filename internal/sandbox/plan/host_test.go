package plan

import (
	"os"
	"path/filepath"
	"testing"

	"forage/internal/testdir"
)

// Git and jj take an empty variable for none.
func TestConfigHome(t *testing.T) {
	for value, want := range map[string]string{"/etc/mine": "/etc/mine", "": "/home/me/.config", "relative": "/home/me/.config"} {
		caller := Caller{Home: "/home/me", Getenv: func(string) (string, bool) { return value, true }}
		if got := caller.configHome(); got != want {
			t.Errorf("with XDG_CONFIG_HOME=%q it is %s, want %s", value, got, want)
		}
	}
}

// What is read without git is what git reads.
func TestGitIdentity(t *testing.T) {
	for config, want := range map[string]GitIdentity{
		"":                                  {},
		"[user]\n\tname = A B\n\temail=a@b": {"A B", "a@b"},
		"[User]\nNAME = A\n[core]\nname = x\n[user \"x\"]\nname = y\n[user]\n# name = z\nemail = b": {"A", "b"},
		"[user]\nname = \"A # B\" ; C":                 {Name: "A # B"},
		"[user] name = A\n":                            {Name: "A"},
		"[user]\nname = A \\\nB":                       {Name: "A B"},
		"\ufeff[user]\nname = A":                       {Name: "A"},
		"[user]\nname = A\n[include]\npath = other":    {Name: "A"}, // as of git config --global
		"[user]\nname = A\n[core]\npager = \"a\\\nb\"": {Name: "A"},
	} {
		home := t.TempDir()
		caller := Caller{Home: home, Getenv: func(string) (string, bool) { return "", false }}
		for name, text := range map[string]string{".gitconfig": config, "other": "[user]\nname = other\n"} {
			testdir.Must(t, os.WriteFile(filepath.Join(home, name), []byte(text), 0o600))
		}
		if got := CallersGit(t.Context(), caller); got != want {
			t.Errorf("%q: got %+v, want %+v", config, got, want)
		}
	}
}
