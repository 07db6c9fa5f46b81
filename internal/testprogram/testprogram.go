// Package testprogram builds forage-ctl for suites that start it as their
// users do.
package testprogram

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Main is TestMain for a suite that needs the program: it builds it, puts its
// path in program and runs the tests. It returns the exit code.
func Main(m *testing.M, program *string) int {
	dir, err := os.MkdirTemp("", "forage-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // other users run it too
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	*program = filepath.Join(dir, "forage-ctl")
	build := exec.Command("go", "build", "-o", *program, "forage/cmd/forage-ctl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building forage-ctl: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
