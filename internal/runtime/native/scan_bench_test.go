package native

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkScan looks through the tree that SCAN names, /usr/share without it.
func BenchmarkScan(b *testing.B) {
	dir := os.Getenv("SCAN")
	if dir == "" {
		dir = "/usr/share"
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(b, err)
	defer unix.Close(fd)
	for b.Loop() {
		if _, err := startScan(fd).wait(); err != nil {
			b.Fatal(err)
		}
	}
}
