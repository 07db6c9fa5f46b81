package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"forage"
)

// TestCheckLogin: whatever is where a login should be, it is said at once, with its path.
func TestCheckLogin(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		write("good", `{"claudeAiOauth":{"accessToken":"x"}}`): "",
		write("empty", `{}`):                            "holds no login",
		write("large", "{}"+strings.Repeat(" ", 1<<20)): "larger than 1048576 bytes",
		filepath.Join(dir, "none"):                      "there is no login at",
		fifo:                                            "not a regular file",
		dir:                                             "not a regular file",
	} {
		err := CheckLogin(forage.Login{Kind: forage.LoginClaude, File: path})
		if want == "" && err == nil {
			continue
		}
		if err == nil || want == "" || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
