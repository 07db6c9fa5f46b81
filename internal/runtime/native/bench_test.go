package native

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkStart measures from Start to the listeners, with the host's view and
// an empty workspace, and from a kill to the end of everything. The mean has in it what the kernel still takes apart of the sandbox
// before; the median is what a user waits for.
func BenchmarkStart(b *testing.B) {
	spec := baseSpec(b, b.TempDir())
	run := b.TempDir()
	var took, ended []time.Duration
	for b.Loop() {
		begun := time.Now()
		i, err := boxedIn(b, run, spec, script{})
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begun))
		begun = time.Now()
		if err := i.Stop(b.Context(), 0); err != nil {
			b.Fatal(err)
		}
		ended = append(ended, time.Since(begun))
		closeListeners(i.Egress())
		i.Control().Close()
	}
	slices.Sort(took)
	slices.Sort(ended)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs/start(median)")
	b.ReportMetric(float64(took[0].Microseconds()), "µs/start(least)")
	b.ReportMetric(float64(ended[len(ended)/2].Microseconds()), "µs/stop(median)")
}
