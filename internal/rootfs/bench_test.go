package rootfs

import (
	"os"
	"testing"
)

func BenchmarkHost(b *testing.B) {
	for b.Loop() {
		if _, err := Host(os.DirFS("/"), "box", agent); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSystemTool looks for what is not outside the system, as most runs do.
func BenchmarkSystemTool(b *testing.B) {
	for b.Loop() {
		if _, err := HostTool("true", Caller{Path: "/usr/local/bin:/usr/bin:/bin", Home: "/home/x"}); err != nil {
			b.Fatal(err)
		}
	}
}
