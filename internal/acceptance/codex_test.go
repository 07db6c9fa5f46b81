package acceptance

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"forage/internal/audit"
)

const (
	openaiHost  = "api.openai.com"
	chatGPTHost = "chatgpt.com"
)

// TestCodex runs the real Codex, a Node.js program that starts a native one, in
// a sandbox against a mock of its API under the API's own name.
func TestCodex(t *testing.T) {
	t.Parallel()
	codex := installed(t, "codex")
	const key = "sk-codex-acceptance-test"
	api := &openai{command: "printf 'from codex\\n' >> greeting.txt && cat greeting.txt"}
	addr, caFile := serveTLS(t, openaiHost, api)
	forage := newProgram(t, fmt.Sprintf("[network]\nresolve = { %q = %q }\nupstreamCA = %q\n", openaiHost+":443", addr, caFile),
		filepath.Dir(codex), "CODEX_API_KEY="+key)
	project, greeting := newProject(t)

	out := forage.run("run", "-w", project, "--name", "acceptance-codex", "--env", "CODEX_API_KEY", "--",
		"codex", "exec", "--skip-git-repo-check", "edit the greeting")

	if !strings.Contains(out, closingWords) {
		t.Errorf("codex printed %q, want the API's closing words", out)
	}
	checkFile(t, greeting, "hello before\nfrom codex\n")
	checkTold(t, api.bodies, "Allowed hosts: `"+openaiHost+"`")
	outputs, keys := api.seen()
	if len(outputs) == 0 || !strings.Contains(outputs[0], "from codex") {
		t.Errorf("the command answered %q, want the file", outputs)
	}
	for _, got := range keys {
		if got != "Bearer "+key {
			t.Errorf("the API was called with %q, want the key passed with --env", got)
		}
	}
	allowed := 0
	for _, event := range forage.auditEvents("acceptance-codex") {
		if event.Kind == audit.Connect && event.Host == openaiHost && event.Verdict == "allow" {
			allowed++
		}
	}
	if allowed == 0 {
		t.Errorf("no allowed connection to %s in the audit", openaiHost)
	}
}
