package imagetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"forage"
	"forage/internal/image"
)

// TestForms resolves each form and runs its shell, as far as that goes without a sandbox.
func TestForms(t *testing.T) {
	for name, form := range map[string]func(testing.TB) forage.Rootfs{"dir": Dir, "layout": Layout, "archive": Archive, "registry": Registry} {
		t.Run(name, func(t *testing.T) {
			lower, path, err := image.Resolve(t.Context(), form(t), filepath.Join(t.TempDir(), "cache"), image.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), filepath.Join(lower[0], "bin/sh"), "-c", "echo works").Output()
			if err != nil || string(out) != "works\n" {
				t.Errorf("sh: %q, %v", out, err)
			}
			if _, err := os.Stat(filepath.Join(lower[0], Marker)); err != nil {
				t.Error(err)
			}
			if name == "dir" {
				return
			}
			if path != "/opt/tools:/bin" {
				t.Errorf("PATH %q", path)
			}
			if _, err := os.Stat(filepath.Join(lower[0], "etc/below")); err == nil {
				t.Error("the second layer took nothing away")
			}
		})
	}
}
