package child

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"forage"
)

func TestLoader(t *testing.T) {
	shell, err := exec.LookPath("sh")
	must(t, err)
	loader, err := loaderOf(shell)
	must(t, err)
	if loader == "" {
		t.Skip("the host's shell is static")
	}
	empty, holding := t.TempDir(), t.TempDir()
	must(t, os.MkdirAll(filepath.Dir(filepath.Join(holding, loader)), 0o755))
	must(t, os.WriteFile(filepath.Join(holding, loader), nil, 0o755))

	if err := checkLoader(shell, []string{empty}); !errors.Is(err, forage.ErrUnsupported) || forage.Hint(err) == "" {
		t.Errorf("without its loader: %v, want a refusal with a hint", err)
	}
	if err := checkLoader(shell, []string{empty, holding}); err != nil {
		t.Errorf("with its loader in the second layer: %v", err)
	}
	static := filepath.Join(t.TempDir(), "static")
	must(t, os.WriteFile(static, []byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00\x01\x00\x00\x00"+
		string(make([]byte, 28))+"\x40\x00\x38\x00\x00\x00\x40\x00\x00\x00\x00\x00"), 0o755))
	if err := checkLoader(static, []string{empty}); err != nil {
		t.Errorf("a program that needs none: %v", err)
	}
}
