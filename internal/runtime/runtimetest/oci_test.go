package runtimetest_test

import (
	"os/exec"
	"testing"

	"forage/internal/runtime"
	"forage/internal/runtime/oci"
	"forage/internal/runtime/runtimetest"
)

// ociHarness plugs in an OCI command line, if there is one.
func ociHarness(t *testing.T, command string) runtimetest.Harness {
	path, err := exec.LookPath(command)
	if err != nil {
		t.Skip("needs ", err)
	}
	return runtimetest.Harness{
		Program: program, OwnKernel: command == "runsc",
		New: func(runtimeDir string) runtime.Runtime { return oci.New(runtimeDir, path, program) },
	}
}

func TestRuncConforms(t *testing.T) { runtimetest.Conformance(t, ociHarness(t, "runc")) }

func TestRuncHolds(t *testing.T) { runtimetest.Escape(t, ociHarness(t, "runc")) }

func TestCrunConforms(t *testing.T) { runtimetest.Conformance(t, ociHarness(t, "crun")) }

func TestCrunHolds(t *testing.T) { runtimetest.Escape(t, ociHarness(t, "crun")) }

func TestRunscConforms(t *testing.T) { runtimetest.Conformance(t, ociHarness(t, "runsc")) }

func TestRunscHolds(t *testing.T) { runtimetest.Escape(t, ociHarness(t, "runsc")) }
