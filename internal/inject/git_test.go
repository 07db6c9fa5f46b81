package inject

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"forage"
	"forage/internal/testdir"
)

// TestGitConfig asks the real git where it would go.
func TestGitConfig(t *testing.T) {
	t.Parallel()
	c := Git(forage.Binding{Secret: "forge", Uses: []forage.SecretUse{
		{Hosts: []string{"api.github.com"}, Place: forage.PlaceBearer},
		{Hosts: []string{"github.com", "*.example.net", "git.example.com:8443"}, Place: forage.PlaceBasic},
		{Hosts: []string{"gitlab.com", "github.com", "[2001:db8::1]:443"}, Place: forage.PlaceBasic},
	}})
	file := filepath.Join(t.TempDir(), "config")
	testdir.Must(t, os.WriteFile(file, []byte("[credential]\n\thelper = \"!echo password=wrong\"\n"+c.Git), 0o644))
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_SYSTEM=" + file, "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_TERMINAL_PROMPT=" + c.Env["GIT_TERMINAL_PROMPT"]}
		cmd.Dir = t.TempDir()
		cmd.Stdin = strings.NewReader("protocol=https\nhost=github.com\nusername=a\n\n")
		out, err := cmd.CombinedOutput()
		if err != nil && args[0] != "credential" {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	for _, tt := range []struct{ remote, want string }{
		{"git@github.com:acme/app.git", "https://github.com/acme/app.git"},
		{"ssh://git@github.com/acme/app", "https://github.com/acme/app"},
		{"ssh://git@github.com:22/acme/app", "https://github.com/acme/app"},
		{"ssh://git@ssh.github.com:443/acme/app", "https://github.com/acme/app"},
		{"https://github.com/acme/app", "https://github.com/acme/app"},
		{"git@gitlab.com:acme/group/app.git", "https://gitlab.com/acme/group/app.git"},
		{"ssh://git@altssh.gitlab.com:443/acme/app", "https://gitlab.com/acme/app"},
		{"git@git.example.com:acme/app", "https://git.example.com:8443/acme/app"},
		{"ssh://git@[2001:db8::1]/acme/app", "https://[2001:db8::1]:443/acme/app"},
		{"git@api.github.com:acme/app", "git@api.github.com:acme/app"},
		{"git@x.example.net:acme/app", "git@x.example.net:acme/app"},
		{"git@github.com.example.org:acme/app", "git@github.com.example.org:acme/app"},
	} {
		if got := git("ls-remote", "--get-url", tt.remote); got != tt.want {
			t.Errorf("git goes to %s for %s, want %s", got, tt.remote, tt.want)
		}
	}
	if got := git("credential", "fill"); strings.Contains(got, "wrong") {
		t.Errorf("git asked a credential helper: %s", got)
	}
}

// TestGitConfigKeepsToItsLines quotes what no host should have.
func TestGitConfigKeepsToItsLines(t *testing.T) {
	t.Parallel()
	want := "[url \"https://a\\\"]b/\"]\n\tinsteadOf = \"git@a\\\"]b:\"\n\tinsteadOf = \"ssh://git@a\\\"]b/\"\n" +
		"\tinsteadOf = \"ssh://git@a\\\"]b:22/\"\n[credential]\n\thelper =\n"
	testdir.Same(t, "", want, GitConfig([]string{"a\"]\nb"}))
}
