package review

import (
	"bytes"
	"strings"
	"testing"

	"forage/internal/term"
)

func FuzzPatchWriter(f *testing.F) {
	f.Add([]byte("@@ -1,2 +1 @@\n\x02a\x1b[31m\n\x03\u202e\n"), []byte("\xc3\xa9\r\n@@ -9999999999 +1 @@"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var out bytes.Buffer
		p := &patchWriter{out: &out}
		for _, part := range [][]byte{a, b} {
			if _, err := p.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if text := strings.NewReplacer("\n", "", "\t", "").Replace(out.String()); term.Escape(text) != text {
			t.Errorf("%q and %q came out as %q", a, b, out.String())
		}
		if lines := bytes.Count(append(a[:len(a):len(a)], b...), []byte("\n")); strings.Count(out.String(), "\n") > lines+1 {
			t.Errorf("%d lines became %d", lines, strings.Count(out.String(), "\n"))
		}
	})
}

func FuzzParsers(f *testing.F) {
	f.Add([]byte("0123 blob 3\nabc\n"), ":100644 100755 0 1 R100\x00a\x00b\x001\t2\t\x00a\x00b")
	f.Fuzz(func(t *testing.T, batch []byte, raw string) {
		found := make(map[string]string)
		_ = parseBatch(batch, []string{"a", "b"}, found)
		changes, err := parseChanges(strings.Split(raw, "\x00"))
		if err == nil && len(changes) > strings.Count(raw, ":") {
			t.Errorf("%q has %d changes", raw, len(changes))
		}
	})
}
