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

// world is a host for the test of one agent with one kind of credential.
type world struct {
	t       *testing.T
	ca      *authority
	config  strings.Builder // TOML
	resolve []string        // lines of it
	env     []string        // "K=V" of the caller's environment
	stays   bool            // the sandbox is started with up, not with run
}

func newWorld(t *testing.T) *world { return &world{t: t, ca: newAuthority(t)} }

// serve makes handler the host of that name, for sandboxes and for Forage.
func (w *world) serve(host string, handler http.Handler) {
	w.t.Helper()
	w.resolve = append(w.resolve, fmt.Sprintf("%q = %q", host+":443", w.ca.serve(host, handler)))
}

// file writes a file that only its owner can read.
func (w *world) file(name, content string) string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func (w *world) program(extraPath string) *program {
	w.t.Helper()
	return newProgram(w.t, w.text(), extraPath, w.env...)
}

// text is the whole configuration.
func (w *world) text() string {
	return fmt.Sprintf("[network]\nupstreamCA = %q\nresolve = { %s }\n%s", w.ca.file, strings.Join(w.resolve, ", "), w.config.String())
}

// lookEverywhere is what an agent's command does that wants to have the secret.
const lookEverywhere = `env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\0' '\n'; ` +
	`cat ~/.claude/.credentials.json ~/.codex/auth.json 2>/dev/null; ls -R /run 2>/dev/null; true`

// TestClaudeCodeSecrets: the real Claude Code does a task with a credential that
// is nowhere inside.
func TestClaudeCodeSecrets(t *testing.T) {
	t.Parallel()
	claude := installed(t, "claude")
	script := []call{
		{"Read", map[string]any{"file_path": "/workspace/greeting.txt"}},
		{"Edit", map[string]any{"file_path": "/workspace/greeting.txt", "old_string": "before", "new_string": "after"}},
		{"Bash", map[string]any{"description": "look for the secret", "command": lookEverywhere}},
	}
	task := []string{"--", "claude", "-p", "edit the greeting"}

	t.Run("key that is in the environment", func(t *testing.T) { // and that is not configured
		t.Parallel()
		w, api, key := newWorld(t), &anthropic{script: script}, "sk-ant-api03-"+random(95)
		w.serve(apiHost, api)
		w.env = []string{"ANTHROPIC_API_KEY=" + key}
		w.finishes(claude, api, map[string]string{"the key": key}, task)
		api.shown.check(t, key, "")
	})

	t.Run("key, in a sandbox that stays", func(t *testing.T) {
		t.Parallel()
		w, api, key := newWorld(t), &anthropic{script: script}, "sk-ant-api03-"+random(95)
		w.stays = true
		w.serve(apiHost, api)
		fmt.Fprintf(&w.config, "[secrets.anthropic]\nfile = %q\n", w.file("key", key+"\n"))
		w.finishes(claude, api, map[string]string{"the key": key}, append([]string{"-t", "claude"}, task...))
		api.shown.check(t, key, "")
	})

	t.Run("login that has ended", func(t *testing.T) {
		t.Parallel()
		w, server := newWorld(t), newOAuth(false)
		api := &anthropic{script: script, accepts: server.takes}
		w.serve(apiHost, api)
		w.serve("platform.claude.com", server)
		oldAccess, oldRefresh, _ := server.now()
		file := w.file(".credentials.json", server.claudeLogin(time.Now().Add(-time.Hour)))
		server.revoke()
		fmt.Fprintf(&w.config, "[secrets.anthropic]\nlogin = \"claude\"\nloginFile = %q\n", file)
		secrets := map[string]string{"the old access token": oldAccess, "the old refresh token": oldRefresh}
		w.finishes(claude, api, secrets, append([]string{"-t", "claude"}, task...), server)
		w.renewedOnce(server, file)
		access, _, _ := server.now()
		api.shown.check(t, "", "Bearer "+access)
	})
}

// TestCodexSecrets: the same for the real Codex, whose login has been revoked. Codex notices that
// by an answer 401, and asks for a new one.
func TestCodexSecrets(t *testing.T) {
	t.Parallel()
	codex := installed(t, "codex")
	const command = `printf 'from codex\n' >> greeting.txt; ` + lookEverywhere
	w, server := newWorld(t), newOAuth(true)
	api := &openai{command: command, accepts: server.takes}
	w.serve(chatGPTHost, api)
	w.serve("auth.openai.com", server)
	_, oldRefresh, _ := server.now()
	file := w.file("auth.json", server.chatGPTLogin(time.Now().Add(time.Hour)))
	fmt.Fprintf(&w.config, "[secrets.openai]\nlogin = \"chatgpt\"\nloginFile = %q\n", file)
	w.finishes(codex, api, map[string]string{"the old refresh token": oldRefresh},
		[]string{"-t", "codex", "--", "codex", "exec", "--skip-git-repo-check", "edit the greeting"}, server)
	w.renewedOnce(server, file)
	access, _, _ := server.now()
	api.shown.check(t, "", "Bearer "+access)
}

// mock is an API that asks the agent for its task.
type mock interface {
	// whenAnswered has f done once, while the agent waits for what comes after a tool's result.
	whenAnswered(f func())
	// told is what the tools answered.
	told() []string
}

func (m *anthropic) whenAnswered(f func()) { m.during = f }
func (m *openai) whenAnswered(f func())    { m.during = f }

func (m *anthropic) told() []string { results, _ := m.seen(); return results }
func (m *openai) told() []string    { outputs, _ := m.seen(); return outputs }

// finishes runs the agent on a project, wants it to change the file, and looks for the
// secrets while it runs and in what is left; those that servers give meanwhile too.
func (w *world) finishes(agent string, api mock, secrets map[string]string, args []string, servers ...*oauth) {
	t := w.t
	t.Helper()
	forage := w.program(filepath.Dir(agent))
	project, greeting := newProject(t)
	all := func() map[string]string {
		for _, server := range servers {
			access, refresh, _ := server.now()
			secrets["the access token"], secrets["the refresh token"] = access, refresh
		}
		return secrets
	}
	searched := false
	api.whenAnswered(func() {
		searched = true
		s := newSearch(all())
		s.sandbox(t, project)
		forage.writes(s)
		s.check(t)
	})
	const name = "acceptance-secret"
	var out string
	if w.stays {
		forage.run(append([]string{"up", name, "-w", project}, args...)...)
		t.Cleanup(func() { forage.run("down", name) })
		log := filepath.Join(forage.stateDir, "sandboxes", name+".log")
		wait(t, "the agent is done", func() bool {
			text, err := os.ReadFile(log)
			out = string(text)
			return err == nil && strings.Contains(out, closingWords)
		})
	} else {
		out = forage.run(append([]string{"run", "-w", project, "--name", name}, args...)...)
	}

	if !strings.Contains(out, closingWords) {
		t.Errorf("the agent printed %q, want the API's closing words", out)
	}
	if content, err := os.ReadFile(greeting); err != nil || string(content) == "hello before\n" {
		t.Errorf("the task is not done: %q, %v", content, err)
	}
	if !searched {
		t.Error("the secret was not searched for: no tool's result came")
	}
	left := newSearch(all())
	left.look("output of the agent", []byte(out))
	left.look("results of tools", []byte(strings.Join(api.told(), "\n")))
	left.tree("workspace", project)
	forage.writes(left)
	left.check(t)
	forage.run("audit", "verify", name)
}

// renewedOnce looks at a login after it had to be renewed.
func (w *world) renewedOnce(server *oauth, file string) {
	w.t.Helper()
	access, refresh, asked := server.now()
	if asked != 1 {
		w.t.Errorf("the login was renewed %d times, want once", asked)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	if !strings.Contains(string(content), access) || !strings.Contains(string(content), refresh) {
		w.t.Errorf("the new tokens are not in the host's file")
	}
}

// writes searches what Forage has written: records, logs, audit logs, generated files, sockets'
// names.
func (p *program) writes(s *search) {
	p.t.Helper()
	before := s.files
	s.tree("state", p.stateDir)
	s.tree("runtime folder", p.runtimeDir)
	if s.files == before {
		p.t.Error("Forage has written nothing: that is no search")
	}
}
