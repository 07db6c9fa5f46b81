package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forage"
	"forage/internal/hostexec"
)

func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "box")
	if Alive(dir) {
		t.Fatal("alive before anybody took it")
	}
	lock, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !Alive(dir) {
		t.Fatal("not alive while held")
	}
	if _, err := Acquire(dir); forage.ExitCode(err) != 7 {
		t.Fatalf("a second one got it too: %v", err)
	}
	gone := make(chan error)
	go func() { gone <- WaitGone(dir) }()
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-gone; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Fatalf("the folder is left: %v", err)
	}
	if err := WaitGone(dir); err != nil {
		t.Fatalf("waiting for what is not there: %v", err)
	}
}

// What a program does that outlives a killed supervisor, or run, is done before anybody else has
// the sandbox.
func TestLockIsHeldByWhatOutlivesUs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "box")
	open := hostexec.Command{Argv: []string{"sh", "-c", "readlink /proc/$$/fd/*"}, Outlives: true}
	lock, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := lock.file.Name()
	if out, err := hostexec.Run(t.Context(), open); !strings.Contains(string(out.Stdout), path) {
		t.Errorf("it has open %q (%v), and not %s", out.Stdout, err, path)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if out, _ := hostexec.Run(t.Context(), open); strings.Contains(string(out.Stdout), path) {
		t.Errorf("it has a lock open that was given up: %q", out.Stdout)
	}
}
