package runtimetest_test

import (
	"os"
	"testing"

	"forage/internal/runtime"
	"forage/internal/runtime/native"
	"forage/internal/runtime/runtimetest"
	"forage/internal/testprogram"
)

var program string // the built forage-ctl

func TestMain(m *testing.M) { os.Exit(testprogram.Main(m, &program)) }

func nativeHarness() runtimetest.Harness {
	return runtimetest.Harness{
		Program: program,
		New: func(runtimeDir string) runtime.Runtime {
			return native.New(runtimeDir, program)
		},
	}
}

func TestNativeConforms(t *testing.T) { runtimetest.Conformance(t, nativeHarness()) }

func TestNativeHolds(t *testing.T) { runtimetest.Escape(t, nativeHarness()) }
