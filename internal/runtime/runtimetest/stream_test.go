package runtimetest_test

import (
	"os"
	"testing"

	"forage/internal/runtime"
	"forage/internal/runtime/child"
	"forage/internal/runtime/runtimetest"
)

// streamHarness is native over one stream: no descriptor crosses, and the guest forwards
// connections itself.
func streamHarness(t *testing.T) runtimetest.Harness {
	if os.Getuid() == 0 {
		t.Skip("root's mounts are descriptors")
	}
	return runtimetest.Harness{
		Program: program,
		New: func(runtimeDir string) runtime.Runtime {
			return child.New(child.Config{Name: "stream", Namespaces: child.Clone{}, Dir: runtimeDir, Self: program, Stream: true})
		},
	}
}

func TestStreamConforms(t *testing.T) { runtimetest.Conformance(t, streamHarness(t)) }

func TestStreamHolds(t *testing.T) { runtimetest.Escape(t, streamHarness(t)) }
