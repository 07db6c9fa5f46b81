package gitproto

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
)

// BenchmarkGuard passes a push of 16 MiB: of what can't be compressed, and of text.
func BenchmarkGuard(b *testing.B) {
	random := rand.NewChaCha8([32]byte{})
	noise := make([]byte, 1<<20)
	random.Read(noise)
	text := bytes.Repeat([]byte("some text that many files have in common, line by line\n"), 1<<20/55)
	for name, data := range map[string][]byte{"noise": noise, "text": text} {
		var objects []object
		for range 16 {
			objects = append(objects, object{kind: kindBlob, data: data})
		}
		body := append(lines(zeros+" "+ones+" refs/heads/agent/x"+caps), makePack(objects...)...)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(16 * int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				guard, err := Guard(bytes.NewReader(body), rule)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, guard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
