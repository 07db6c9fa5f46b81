package proxy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnits: systemd takes the units as they are shipped.
func TestUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("needs systemd-analyze")
	}
	dir := t.TempDir()
	var units []string
	for _, name := range []string{"forage-proxy.service", "forage-proxy.socket"} {
		text, err := os.ReadFile(filepath.Join("../../contrib/systemd", name))
		if err != nil {
			t.Fatal(err)
		}
		own := strings.Replace(string(text), "/usr/bin/forage-ctl", "/bin/sh", 1) // which is there
		unit := filepath.Join(dir, name)
		writeFile(t, unit, []byte(own))
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
