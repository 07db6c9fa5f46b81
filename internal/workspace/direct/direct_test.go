package direct

import (
	"os"
	"path/filepath"
	"testing"

	"forage"
	"forage/internal/workspace"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"home/user/project/sub", "home/user/.local/state/firefly-forage/sandboxes", "srv"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(filepath.Join(base, "file"), nil, 0o644)
	os.Symlink(filepath.Join(base, "home/user/project"), filepath.Join(base, "link"))
	os.Symlink(filepath.Join(base, "home"), filepath.Join(base, "srv/link-to-home"))
	os.Symlink(filepath.Join(base, "home"), filepath.Join(base, "homes"))

	for _, test := range []struct {
		path string
		want string // resolved; "" is refused
		exit int
	}{
		{"home/user/project", "home/user/project", 0},
		{"home/user/project/sub", "home/user/project/sub", 0},
		{"link", "home/user/project", 0},
		{"srv", "srv", 0},
		{"absent", "", 64},
		{"file", "", 64},
		{"home/user", "", 7},
		{"home", "", 7},
		{"srv/link-to-home", "", 7},
		{"home/user/.local/state", "", 7},
		{"home/user/.local/state/firefly-forage", "", 7},
		{"home/user/.local/state/firefly-forage/sandboxes", "", 7},
	} {
		got, err := Provider{}.Plan(t.Context(), workspace.Request{
			Path: filepath.Join(base, test.path),
			Home: filepath.Join(base, "homes/user"), // by a link, as some sites have it
			Ours: []string{filepath.Join(base, "home/user/.local/state/firefly-forage"), filepath.Join(base, "run/not-there-yet")},
		})
		if forage.ExitCode(err) != test.exit {
			t.Errorf("%s: %v, want exit code %d", test.path, err, test.exit)
			continue
		}
		if test.exit == 7 && forage.Hint(err) == "" {
			t.Errorf("%s is refused without a hint: %v", test.path, err)
		}
		if test.want != "" && got.Path != filepath.Join(base, test.want) {
			t.Errorf("%s resolved to %s", test.path, got.Path)
		}
	}
	for _, path := range []string{"/", "/.", "/proc", "/proc/self/fd", "/sys/kernel", "/dev"} {
		if _, err := (Provider{}).Plan(t.Context(), workspace.Request{Path: path, Home: "/nowhere"}); forage.ExitCode(err) != 7 {
			t.Errorf("%s as a workspace: %v, want it refused", path, err)
		}
	}
	if os.Getuid() != 0 {
		closed := filepath.Join(base, "closed")
		os.Mkdir(closed, 0)
		if _, err := (Provider{}).Plan(t.Context(), workspace.Request{Path: closed, Home: "/nowhere"}); forage.ExitCode(err) != 64 {
			t.Errorf("a folder that can't be read: %v", err)
		}
	}
}
