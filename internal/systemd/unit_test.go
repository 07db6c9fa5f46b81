package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const folder = "../../contrib/systemd"

// TestUnits: systemd takes the units as they are shipped.
func TestUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("needs systemd-analyze")
	}
	shipped, err := os.ReadDir(folder)
	if err != nil || len(shipped) == 0 {
		t.Fatalf("no units (%v)", err)
	}
	dir := t.TempDir()
	var units []string
	for _, entry := range shipped {
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		own := strings.Replace(string(text), "/usr/bin/forage-ctl", "/bin/sh", 1) // which is there
		unit := filepath.Join(dir, strings.Replace(entry.Name(), "@.", "@1000.", 1))
		if err := os.WriteFile(unit, []byte(own), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(unit, 0o644); err != nil {
			t.Fatal(err)
		}
		units = append(units, unit)
	}
	cmd := exec.Command(analyze, append([]string{"verify", "--man=no"}, units...)...)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), dir) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// TestUnitsOfSandboxes: what makes sandboxes restricts itself by nothing that they inherit, and its
// end does not end them.
func TestUnitsOfSandboxes(t *testing.T) {
	for _, name := range []string{"forage-gateway.service", "forage-gateway@.service", "forage-board.service"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		settings := map[string]string{}
		for line := range strings.Lines(string(text)) {
			if key, value, is := strings.Cut(strings.TrimSpace(line), "="); is && !strings.HasPrefix(key, "#") {
				settings[key] = value
			}
		}
		if settings["KillMode"] != "process" || settings["OOMPolicy"] != "continue" || settings["Type"] != "notify" {
			t.Errorf("%s: %v", name, settings)
		}
		for key := range settings {
			for _, inherited := range []string{"NoNewPrivileges", "Lock", "Private", "Protect", "Limit", "Restrict", "SystemCall", "Capability"} {
				if strings.HasPrefix(key, inherited) {
					t.Errorf("%s: sandboxes inherit %s", name, key)
				}
			}
		}
	}
}
