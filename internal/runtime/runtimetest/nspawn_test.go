package runtimetest_test

import (
	"os"
	"os/exec"
	"testing"

	"forage/internal/runtime"
	"forage/internal/runtime/nspawn"
	"forage/internal/runtime/runtimetest"
)

func nspawnHarness(t *testing.T) runtimetest.Harness {
	if _, err := exec.LookPath("systemd-nspawn"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs systemd-nspawn, and root")
	}
	return runtimetest.Harness{
		Program: program,
		New:     func(runtimeDir string) runtime.Runtime { return nspawn.New(runtimeDir, program) },
	}
}

func TestNspawnConforms(t *testing.T) { runtimetest.Conformance(t, nspawnHarness(t)) }

func TestNspawnHolds(t *testing.T) { runtimetest.Escape(t, nspawnHarness(t)) }
