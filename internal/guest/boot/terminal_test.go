package boot

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTerminal(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"v/vt-of-ours", "78/xterm-256color"} { // folders are called by letter, or by its number
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"TERMINFO=" + dir}
	for name, want := range map[string]string{
		"vt-of-ours": "vt-of-ours", "no-such-terminal": usualTerminal, "": usualTerminal, "../v/vt-of-ours": usualTerminal,
	} {
		if got := Terminal(name, env); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}
