package acceptance

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestBudgetStopsAgent: the real Claude Code, on a task that never ends, is
// stopped by its budget of tokens, which counts what the API streams.
func TestBudgetStopsAgent(t *testing.T) {
	t.Parallel()
	claude := installed(t, "claude")
	endless := make([]call, 200)
	for i := range endless {
		endless[i] = call{"Bash", map[string]any{"description": "go on", "command": fmt.Sprintf("echo step %d", i)}}
	}
	const budget = 24 // tokens; each of the API's answers takes some
	w, api := newWorld(t), &anthropic{script: endless}
	w.serve(apiHost, api)
	fmt.Fprintf(&w.config, "[secrets.anthropic]\nfile = %q\n[templates.claude]\ntraffic = { maxTokens = %d }\n"+
		"env = { CLAUDE_CODE_MAX_RETRIES = \"0\" }\n", w.file("key", "sk-ant-api03-"+random(95)), budget)
	forage := w.program(filepath.Dir(claude))
	project, _ := newProject(t)
	out := forage.run("run", "-w", project, "--name", "acceptance-budget", "-t", "claude", "--",
		"sh", "-c", "claude -p 'never stop'; echo ended with $?")
	if !strings.Contains(out, "ended with ") || strings.Contains(out, closingWords) {
		t.Errorf("the agent printed %q", out)
	}
	results, _ := api.seen()
	if len(results) == 0 || len(results) > budget {
		t.Errorf("the agent took %d steps with a budget of %d tokens", len(results), budget)
	}
	var tokens int64
	refused := false
	for _, e := range forage.auditEvents("acceptance-budget") {
		tokens += e.TokensIn + e.TokensOut
		refused = refused || e.Rule == "max-tokens"
	}
	if tokens < budget || tokens > 2*budget || !refused {
		t.Errorf("%d tokens are recorded, of a budget of %d; refused: %v", tokens, budget, refused)
	}
}
