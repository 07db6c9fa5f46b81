package acceptance

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// geminiCall asks for a shell command, as the Gemini API does in a stream.
const geminiCall = `{"candidates": [{"content": {"role": "model", "parts": [{"functionCall": {"name": "run_shell_command",` +
	`"args": {"command": "echo made > greeting.txt"}}}]}, "finishReason": "STOP"}]}`

// TestOthersAreTold: what an agent is told of its sandbox is in its first request to its API. Gemini CLI, which looks
// at who owns its settings, then runs a command without being asked whether it may.
func TestOthersAreTold(t *testing.T) {
	t.Parallel()
	for agent, test := range map[string]struct{ host, key, command, answer string }{
		"opencode": {host: openaiHost, key: "OPENAI_API_KEY", command: "opencode run --model openai/gpt-5 hello"},
		"gemini":   {"generativelanguage.googleapis.com", "GEMINI_API_KEY", "gemini -m gemini-2.5-pro -p hello", geminiCall},
	} {
		t.Run(agent, func(t *testing.T) {
			program := installed(t, agent)
			var mu sync.Mutex
			var bodies []string
			w := newWorld(t)
			w.serve(test.host, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body) // what is not there is missed below
				mu.Lock()
				bodies = append(bodies, string(body))
				mu.Unlock()
				if test.answer != "" && strings.Contains(r.URL.Path, ":stream") && !strings.Contains(string(body), "functionResponse") {
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprintf(w, "data: %s\r\n\r\n", test.answer)
					return
				}
				http.Error(w, `{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}`, http.StatusBadRequest)
			}))
			w.env = []string{test.key + "=" + strings.Repeat("k", 39)}
			project, greeting := newProject(t)
			out := w.program(filepath.Dir(program)).run("run", "--timeout", "2m", "-t", agent, "-w", project, "--", "sh", "-c", test.command+" 2>&1; true")
			mu.Lock()
			defer mu.Unlock()
			checkTold(t, bodies, fmt.Sprintf("`%s`", test.host))
			if test.answer != "" {
				checkFile(t, greeting, "made\n")
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}
