package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"forage"
)

// stalled is the home folder of a supervisor that does nothing but wait until its launcher gives
// up.
const stalled = "/stalled"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == Argument {
		if os.Getenv("HOME") == stalled {
			fmt.Fprintln(os.Stderr, "here")
			buffer := make([]byte, 1)
			for err := error(nil); err == nil; {
				_, err = os.Stdin.Read(buffer)
			}
			os.Exit(1)
		}
		os.Exit(Main(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

func launchOf(t *testing.T) (launch Launch, errPath string) {
	t.Helper()
	dir := t.TempDir()
	return Launch{StateDir: filepath.Join(dir, "state"), RuntimeDir: filepath.Join(dir, "run"), Name: "box"}, filepath.Join(dir, "err")
}

// A supervisor holds its sandbox before it has done anything, so that one whose launcher is killed
// at once is never overlooked.
func TestSupervisorIsBornWithTheLock(t *testing.T) {
	t.Setenv("HOME", stalled)
	launch, errPath := launchOf(t)
	dir := launch.paths().Dir
	interrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() { ended <- Spawn(ctx, launch, errPath) }()
	await(t, "the supervisor to be there alone with the lock", func() bool {
		said, _ := os.ReadFile(errPath)
		return len(said) > 0 && !hasOpen(t, filepath.Join(dir, lockName))
	})
	if !Alive(dir) {
		t.Error("it does not hold the sandbox")
	}
	cancel(interrupted)
	if err := <-ended; !errors.Is(err, interrupted) {
		t.Errorf("Spawn of a supervisor that gave up: %v", err)
	}
	if err := WaitGone(dir); err != nil || Alive(dir) {
		t.Errorf("it is gone: %v, and it holds the sandbox: %v", err, Alive(dir))
	}
}

// What a supervisor that can't start was given with its birth is gone when Spawn returns.
func TestFailedStartLeavesNothing(t *testing.T) {
	launch, errPath := launchOf(t)
	if err := Spawn(t.Context(), launch, errPath); !errors.Is(err, forage.ErrNotFound) {
		t.Errorf("Spawn of a sandbox that is not on record: %v", err)
	}
	if entries, err := os.ReadDir(launch.RuntimeDir); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

func hasOpen(t *testing.T, path string) bool {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if file, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && strings.HasPrefix(file, path) {
			return true
		}
	}
	return false
}

func await(t *testing.T, what string, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !met(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
