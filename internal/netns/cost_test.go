package netns

import (
	"os"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

func ptr[T any](v *T) uintptr { return uintptr(unsafe.Pointer(v)) }

// TestInsideCost prints what Setup costs in fresh namespaces; BenchmarkSetup starts it.
func TestInsideCost(t *testing.T) {
	inside(t)
	begin := time.Now()
	n, err := Setup()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("Setup took %v", time.Since(begin))
	n.Close()
}

func BenchmarkSetup(b *testing.B) {
	if os.Getenv(roleEnv) != "" {
		b.Skip("this is the inside")
	}
	for b.Loop() {
		t := &testing.T{}
		cmd, _ := spawn(t, "TestInsideCost", syscall.CLONE_NEWNET)
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}
