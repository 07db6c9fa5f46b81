package runtimetest_test

import (
	"os"
	"testing"

	"forage/internal/enginetest"
	"forage/internal/runtime"
	"forage/internal/runtime/engine"
	"forage/internal/runtime/runtimetest"
)

func engineHarness(t *testing.T, name string, options engine.Options) runtimetest.Harness {
	if options.Stream && os.Geteuid() == 0 {
		t.Skip("root's mounts can't cross a stream")
	}
	enginetest.Use(t, name)
	return runtimetest.Harness{
		Program: program,
		New:     func(runtimeDir string) runtime.Runtime { return engine.New(name, runtimeDir, program, options) },
	}
}

func TestDockerConforms(t *testing.T) {
	runtimetest.Conformance(t, engineHarness(t, engine.Docker, engine.Options{}))
}

func TestDockerHolds(t *testing.T) {
	runtimetest.Escape(t, engineHarness(t, engine.Docker, engine.Options{}))
}

func TestDockerStreamConforms(t *testing.T) {
	runtimetest.Conformance(t, engineHarness(t, engine.Docker, engine.Options{Stream: true}))
}

func TestPodmanConforms(t *testing.T) {
	runtimetest.Conformance(t, engineHarness(t, engine.Podman, engine.Options{}))
}

func TestPodmanHolds(t *testing.T) {
	runtimetest.Escape(t, engineHarness(t, engine.Podman, engine.Options{}))
}

func TestPodmanStreamConforms(t *testing.T) {
	runtimetest.Conformance(t, engineHarness(t, engine.Podman, engine.Options{Stream: true}))
}
