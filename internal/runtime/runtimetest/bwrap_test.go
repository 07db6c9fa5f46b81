package runtimetest_test

import (
	"errors"
	"os"
	"testing"

	"forage"
	"forage/internal/runtime"
	"forage/internal/runtime/bwrap"
	"forage/internal/runtime/runtimetest"
)

func bwrapHarness() runtimetest.Harness {
	return runtimetest.Harness{
		Program: program,
		New:     func(runtimeDir string) runtime.Runtime { return bwrap.New(runtimeDir, program) },
	}
}

// onlyUsers skips a test for root, whom bwrap refuses.
func onlyUsers(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("bwrap is for ordinary users")
	}
}

func TestBwrapConforms(t *testing.T) {
	onlyUsers(t)
	runtimetest.Conformance(t, bwrapHarness())
}

func TestBwrapHolds(t *testing.T) {
	onlyUsers(t)
	runtimetest.Escape(t, bwrapHarness())
}

func TestBwrapRefusesRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	err := bwrap.New(t.TempDir(), program).Supports(forage.Spec{Rootfs: forage.Rootfs{Kind: forage.RootfsHost}, Identity: forage.Identity{UID: 1, GID: 1, HostUID: 1, HostGID: 1}})
	if !errors.Is(err, forage.ErrUnsupported) || forage.Hint(err) == "" {
		t.Errorf("got %v", err)
	}
}
