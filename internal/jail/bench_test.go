package jail

import (
	"os/exec"
	"testing"
)

func BenchmarkRun(b *testing.B) {
	for _, argv := range [][]string{{"git", "--version"}} {
		b.Run("bare", func(b *testing.B) {
			for b.Loop() {
				if err := exec.Command(argv[0], argv[1:]...).Run(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("jail", func(b *testing.B) {
			for b.Loop() {
				if err := (Command{Args: argv}).Run(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
