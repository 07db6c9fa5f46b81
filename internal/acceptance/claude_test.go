package acceptance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"forage/internal/audit"
	"forage/internal/enginetest"
	"forage/internal/runtime/engine"
	"forage/internal/testdir"
)

const (
	apiHost = "api.anthropic.com"
	apiKey  = "sk-ant-acceptance-test"
	// unnamed is a host that no template names.
	unnamed = "example.com"
)

// proxyVariables are all the variables that tools look for a proxy in.
const proxyVariables = "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy"

// TestClaudeCode runs the real Claude Code in a sandbox against a mock of its API under the API's
// own name: it reads, edits and appends to a file of the workspace and tries to reach a host that
// is not allowed. Both ways out must carry it: the proxy that the environment names, and plain
// connections.
func TestClaudeCode(t *testing.T) {
	t.Parallel()
	claude := installed(t, "claude")
	tests := []struct {
		name    string
		args    []string // of run, after the options
		wantDNS bool     // whether the client has to ask for the name itself
	}{
		{
			name: "proxy",
			args: []string{"--", "claude", "-p", "edit the greeting"},
		},
		{
			name: "transparent",
			args: []string{"-t", "claude", "--", "sh", "-c",
				"unset " + proxyVariables + "; exec claude -p 'edit the greeting'"},
			wantDNS: true,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			claudeEdits(t, claude, test.name, test.wantDNS, nil, test.args...)
		})
	}
}

// TestClaudeCodeEngines has engines isolate the same, in an image without Claude Code: the caller's
// comes along.
func TestClaudeCodeEngines(t *testing.T) {
	claude := installed(t, "claude")
	for _, name := range []string{engine.Docker, engine.Podman} {
		t.Run(name, func(t *testing.T) {
			enginetest.Use(t, name)
			image := smallRoot(t, claude)
			var env []string
			for _, variable := range engine.Variables {
				if value, ok := os.LookupEnv(variable); ok && variable != "HOME" {
					env = append(env, variable+"="+value)
				}
			}
			claudeEdits(t, claude, name, false, env, "--runtime", name, "--image", "dir:"+image, "--", "claude", "-p", "edit the greeting")
		})
	}
}

// smallRoot makes a root filesystem of a shell, a few tools and the libraries that they and agent
// are linked to.
func smallRoot(t *testing.T, agent string) string {
	root := t.TempDir()
	for _, tool := range []string{agent, "bash", "sh", "env", "ls", "cat"} {
		path, err := exec.LookPath(tool)
		testdir.Must(t, err)
		libraries, err := exec.Command("ldd", path).Output()
		testdir.Must(t, err)
		var files []string
		if tool != agent {
			files = append(files, path)
		}
		for _, word := range strings.Fields(string(libraries)) {
			if strings.HasPrefix(word, "/") && !strings.HasSuffix(word, ":") {
				files = append(files, word)
			}
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			testdir.Must(t, err)
			to := filepath.Join(root, strings.TrimPrefix(file, "/"))
			testdir.Must(t, os.MkdirAll(filepath.Dir(to), 0o755))
			testdir.Must(t, os.WriteFile(to, content, 0o755))
		}
	}
	return root
}

// claudeEdits runs Claude Code with args of run, against a mock that has it edit a file.
func claudeEdits(t *testing.T, claude, name string, wantDNS bool, env []string, args ...string) {
	api := &anthropic{}
	addr, caFile := serveTLS(t, apiHost, api)
	forage := newProgram(t, fmt.Sprintf("[network]\nresolve = { %q = %q }\nupstreamCA = %q\n", apiHost+":443", addr, caFile),
		filepath.Dir(claude), append(env, "ANTHROPIC_API_KEY="+apiKey, "HOST_ONLY=canary-of-the-host")...)
	api.script = []call{
		{"Read", map[string]any{"file_path": "/workspace/greeting.txt"}},
		{"Edit", map[string]any{"file_path": "/workspace/greeting.txt", "old_string": "before", "new_string": "after"}},
		{"Bash", map[string]any{"description": "append a line", "command": "printf 'from a shell\\n' >> greeting.txt"}},
		{"Bash", map[string]any{"description": "reach an unnamed host",
			"command": "(exec 3<>/dev/tcp/" + unnamed + "/443) 2>/dev/null && echo connected || echo refused"}},
		{"Bash", map[string]any{"description": "look around", "command": "ls -A " + forage.home + "; env"}},
	}

	project, greeting := newProject(t)
	sandbox := "acceptance-" + name
	out := forage.run(append([]string{"run", "-w", project, "--name", sandbox, "--env", "ANTHROPIC_API_KEY"}, args...)...)

	results, keys := api.seen()
	if !strings.Contains(out, closingWords) {
		t.Errorf("claude printed %q, want the API's closing words", out)
	}
	checkFile(t, greeting, "hello after\nfrom a shell\n")
	checkResults(t, results, len(api.script))
	checkTold(t, api.bodies, "Allowed hosts: `"+apiHost+"`", "It has no repository", "the same `forage-ctl run` with `--allow HOST`")
	for _, key := range keys {
		if key != apiKey {
			t.Errorf("the API was called with key %q, want the one passed with --env", key)
		}
	}
	checkAudit(t, forage.auditEvents(sandbox), wantDNS)
	forage.run("audit", "verify", sandbox)
}

// checkResults looks at what the tools saw inside.
func checkResults(t *testing.T, results []string, want int) {
	t.Helper()
	if len(results) != want {
		t.Fatalf("%d tool calls were answered, want %d: %q", len(results), want, results)
	}
	if reach := results[3]; !strings.Contains(reach, "refused") {
		t.Errorf("reaching a host that nobody named: %s", reach)
	}
	if around := results[4]; strings.Contains(around, "canary-of-the-host") || strings.Contains(around, ".profile") {
		t.Errorf("the host shows inside: %s", around)
	}
}

// checkAudit looks for the API's connections, and for the one that had to be refused.
func checkAudit(t *testing.T, events []audit.Event, wantDNS bool) {
	t.Helper()
	var connects, denials, questions int
	for _, event := range events {
		switch {
		case event.Kind == audit.Connect && event.Host == apiHost && event.Port == 443 && event.Verdict == "allow":
			connects++
		case event.Kind == audit.DNS && event.Host == apiHost && event.Verdict == "allow":
			questions++
		case event.Host == unnamed && event.Verdict == "deny":
			denials++
		}
	}
	if connects == 0 {
		t.Errorf("no allowed connection to %s in the audit: %+v", apiHost, events)
	}
	if denials == 0 {
		t.Errorf("no denial of %s in the audit: %+v", unnamed, events)
	}
	if got := questions > 0; got != wantDNS {
		t.Errorf("asked the DNS for %s: %v, want %v: %+v", apiHost, got, wantDNS, events)
	}
}
