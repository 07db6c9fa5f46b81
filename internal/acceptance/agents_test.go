package acceptance

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// realAgent is an agent that stays in a sandbox, with a mock of its API.
type realAgent struct {
	name, host, key string // of its command, its API, and the variable of its key
	api             interface {
		http.Handler
		lastBody() string
	}
	prompt string   // what its screen shows when it waits for its user
	resume []string // the prompt follows
}

// codexNews has what Codex (version 0.169) shows as news when its screen starts; no setting of its
// switches that off.
const codexNews = "raw.githubusercontent.com"

// TestWithoutQuestions: agents in a session reach their prompt without a key pressed, do what they
// are told, reach for no host but their API's, and go on with their conversation after stop and
// start.
func TestWithoutQuestions(t *testing.T) {
	const line = "printf 'from a shell\\n' >> greeting.txt"
	for _, a := range []realAgent{
		{
			name: "claude", host: apiHost, key: "ANTHROPIC_API_KEY",
			api:    &anthropic{script: []call{{"Bash", map[string]any{"description": "append a line", "command": line}}}},
			prompt: "❯", resume: []string{"claude", "--continue", "-p"},
		},
		{
			name: "codex", host: openaiHost, key: "OPENAI_API_KEY",
			api:    &openai{command: line},
			prompt: "›", resume: []string{"codex", "exec", "--skip-git-repo-check", "resume", "--last"},
		},
	} {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			program := installed(t, a.name)
			addr, caFile := serveTLS(t, a.host, a.api)
			forage := newProgram(t, fmt.Sprintf("[network]\nresolve = { %q = %q }\nupstreamCA = %q\n", a.host+":443", addr, caFile),
				filepath.Dir(program), a.key+"=sk-acceptance-test-of-an-agent")
			project, greeting := newProject(t)
			sandbox := "asks-nothing-" + a.name
			state := func() string { return forage.run("ps") }
			if api, ok := a.api.(*anthropic); ok {
				api.during = func() { // the answer waits until it shows
					for deadline := time.Now().Add(time.Minute); !strings.Contains(state(), " working "); time.Sleep(100 * time.Millisecond) {
						if time.Now().After(deadline) {
							t.Errorf("%s works, and ps does not say so", a.name)
							return
						}
					}
				}
			}
			forage.run("up", sandbox, "-t", a.name, "-w", project)
			t.Cleanup(func() { forage.run("down", sandbox, "--force") })

			screen := func() string {
				return forage.run("exec", sandbox, "--no-tty", "--", "tmux", "capture-pane", "-p", "-t", "forage:agent")
			}
			eventually(t, "the prompt of "+a.name, screen, func() bool { return strings.Contains(screen(), a.prompt) })
			forage.run("exec", sandbox, "--no-tty", "--", "tmux", "send-keys", "-t", "forage:agent", "edit the greeting")
			eventually(t, "what was typed", screen, func() bool { return strings.Contains(screen(), "edit the greeting") })
			forage.run("exec", sandbox, "--no-tty", "--", "tmux", "send-keys", "-t", "forage:agent", "Enter")
			eventually(t, "the work", screen, func() bool {
				text, err := os.ReadFile(greeting)
				return err == nil && string(text) == "hello before\nfrom a shell\n"
			})

			eventually(t, "waiting in ps", state, func() bool { return strings.Contains(state(), " waiting ") })
			forage.run("stop", sandbox)
			forage.run("start", sandbox)
			forage.run(append([]string{"exec", sandbox, "--no-tty", "--"}, append(a.resume, "what was it")...)...)
			if body := a.api.lastBody(); !strings.Contains(body, "edit the greeting") || !strings.Contains(body, "what was it") {
				t.Errorf("the conversation was not resumed: %.2000s", body)
			}
			reached := map[string]int{}
			for _, event := range forage.auditEvents(sandbox) {
				if event.Verdict == "deny" && event.Host != codexNews {
					reached[event.Host]++
				}
			}
			if len(reached) > 0 {
				t.Errorf("%s reached for other hosts: %v", a.name, reached)
			}
		})
	}
}

// eventually waits until done, and shows the screen when that does not happen.
func eventually(t *testing.T, what string, screen func() string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no sign of %s on:\n%s", what, screen())
		}
	}
}
