package audit

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Lines are ASCII alone and say what the event says, whatever text is in it.
func FuzzLines(f *testing.F) {
	for _, text := range []string{"/a?\x7f<é😀>", "\"\\\x00\x1f\b\n", "\u202e\u2028\ufffd\U0010ffff", "\xff\xed\xa0\x80"} {
		f.Add(text, int64(-1), 1e-7)
	}
	f.Fuzz(func(t *testing.T, text string, number int64, cost float64) {
		e := Event{Seq: 1, Sandbox: text, Path: text, Reason: text, BytesIn: number, Cost: cost, Time: time.Unix(number%(1<<32), 0).UTC()}
		line, err := appendLine([]byte("before"), &e)
		if err != nil {
			return
		}
		line = line[len("before"):]
		for _, c := range line {
			if c < ' ' || c >= 0x7f {
				t.Fatalf("%q", line)
			}
		}
		got, err := decode(line)
		if err != nil {
			t.Fatal(err)
		}
		want := e
		want.Sandbox, want.Path, want.Reason = got.Sandbox, got.Path, got.Reason
		if text := []rune(text); string(text) != got.Path {
			t.Fatalf("%q is read as %q", string(text), got.Path)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}
