package native

import (
	"testing"
)

// BenchmarkStart measures from Start to the listeners, with the host's view and an empty workspace.
func BenchmarkStart(b *testing.B) {
	spec := baseSpec(b, b.TempDir())
	run := b.TempDir()
	for b.Loop() {
		i, err := boxedIn(b, run, spec, script{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := i.Stop(b.Context(), 0); err != nil {
			b.Fatal(err)
		}
		closeListeners(i.Egress())
		i.Control().Close()
		b.StartTimer()
	}
}
