package inject

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/agent"
	"forage/internal/testdir"
)

// TestOwnSettings: what may come in does, and nothing else of a folder that holds credentials,
// links and a FIFO.
func TestOwnSettings(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, ".claude")
	for name, text := range map[string]string{
		"CLAUDE.md": "be brief", ".credentials.json": "sk", "history.jsonl": "h", "hooks/x.sh": "x",
		"skills/a/SKILL.md": "a", "skills/a/run.sh": "r", "skills/a/.env": "K=sk", "skills/a/token.txt": "sk", "skills/a/tokens.md": "about",
		"settings.json": `{"model":"m","env":{"K":"sk"},"apiKeyHelper":"x","hooks":{"Stop":[]},"permissions":{"allow":["A"],"deny":["D"],"ask":["B"]}}`,
		"../.claude.json": `{"userID":"u","mcpServers":{"good":{"command":"sh","args":["-y","@team/server-with-a-long-name@2025.11.3"],"env":{"K":"sk"}},
			"remote":{"url":"https://mcp.example.com"},"leaky":{"command":"sh","args":["--token=sk"]},
			"key":{"command":"sh","args":["--key","sk-ant-api03-AAAAbbbb1234567890cccc"]},"query":{"command":"sh","args":["https://m.example/?k=f81d4fae7dec11d0a765"]}}}`,
		"../outside": "secret of the host",
	} {
		path := filepath.Join(dir, name)
		testdir.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testdir.Must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	testdir.Must(t, os.Symlink("../../outside", filepath.Join(dir, "skills", "out")))
	testdir.Must(t, os.Symlink("../../.credentials.json", filepath.Join(dir, "skills", "a", "c.md")))
	testdir.Must(t, unix.Mkfifo(filepath.Join(dir, "skills", "fifo"), 0o600))
	claude, _ := agent.Lookup("claude")
	for _, hooks := range []bool{false, true} {
		own, err := OwnSettings(dir, claude, hooks)
		testdir.Must(t, err)
		var files []string
		for _, f := range own.Files {
			files = append(files, f.Path)
		}
		want := []string{"CLAUDE.md", "skills/a/SKILL.md", "skills/a/run.sh", "skills/a/tokens.md"}
		settings := map[string]any{"model": "m", "permissions": map[string]any{"allow": []any{"A"}, "deny": []any{"D"}}}
		if hooks {
			want = append(want, "hooks/x.sh")
			settings["hooks"] = map[string]any{"Stop": []any{}}
		}
		if diff := cmp.Diff(want, files); diff != "" {
			t.Errorf("hooks %v: files (-want +got):\n%s", hooks, diff)
		}
		if diff := cmp.Diff(settings, own.Settings); diff != "" {
			t.Errorf("hooks %v: settings (-want +got):\n%s", hooks, diff)
		}
		servers := map[string]any{"good": map[string]any{"command": "sh", "args": []any{"-y", "@team/server-with-a-long-name@2025.11.3"}}}
		testdir.Same(t, "servers", servers, own.Servers)
		if notes := strings.Join(own.Notes, "\n"); !strings.Contains(notes, "skills/out") || !strings.Contains(notes, "leaky") || !strings.Contains(notes, "fifo") {
			t.Errorf("notes: %s", notes)
		}
	}
	if _, err := OwnSettings(filepath.Join(home, "none"), claude, false); err == nil || forage.Hint(err) == "" {
		t.Errorf("a folder that is not there: %v", err)
	}
	big := filepath.Join(dir, "commands")
	testdir.Must(t, os.Mkdir(big, 0o755))
	for _, name := range []string{"a.md", "b.md"} {
		testdir.Must(t, os.WriteFile(filepath.Join(big, name), make([]byte, maxSettings*3/4), 0o644))
	}
	if _, err := OwnSettings(dir, claude, false); err == nil || forage.Hint(err) == "" {
		t.Errorf("more than may come in: %v", err)
	}
}
