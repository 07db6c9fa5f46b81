package plan

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"forage"
	"forage/internal/testdir"
)

// An agent that the caller doesn't have is named first, with the command that installs it.
func TestPlanMissingAgent(t *testing.T) {
	d := newDesk(t)
	d.env["PATH"] = filepath.Join(d.home, "empty")
	_, notes, err := d.plan("", Options{Command: []string{"amp", "-x", "work"}})
	if err != nil || len(notes) == 0 || !strings.HasPrefix(notes[len(notes)-1], "amp is not installed") || !strings.Contains(notes[len(notes)-1], "npm install") {
		t.Errorf("%v, notes %q", err, notes)
	}
}

func TestPlanAgentSettings(t *testing.T) {
	d := newDesk(t)
	files := func(config string, opts Options) (paths []string, plan forage.Plan) {
		t.Helper()
		plan, _, err := d.plan(config, opts)
		testdir.Must(t, err)
		for _, file := range plan.Spec.Files {
			paths = append(paths, file.Path)
		}
		return paths, plan
	}
	both, plan := files("", Options{Template: "multi"})
	for _, path := range []string{"/etc/claude-code/managed-settings.json", "/etc/opencode/opencode.json"} {
		if !slices.Contains(both, path) {
			t.Errorf("multi has no %s: %q", path, both)
		}
	}
	if plan.Spec.Env["CLAUDE_CODE_SANDBOXED"] != "1" || plan.Spec.Env["DISABLE_AUTOUPDATER"] != "1" {
		t.Errorf("environment: %v", plan.Spec.Env)
	}
	if none, _ := files("", Options{Template: "shell"}); slices.ContainsFunc(none, func(p string) bool { return strings.Contains(p, "claude") }) {
		t.Errorf("a shell has an agent's settings: %q", none)
	}
	_, _, err := d.plan("[templates.aider.agents.aider]\npermissions.deny = [\"x\"]\n", Options{Template: "aider"})
	if !errors.Is(err, forage.ErrUnsupported) || forage.Hint(err) == "" {
		t.Errorf("rules that the agent does not know: %v", err)
	}
}
