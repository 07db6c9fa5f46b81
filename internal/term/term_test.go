package term

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"forage/internal/testdir"
)

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"":                     "",
		"plain, åäö 漢字 🙂":      "plain, åäö 漢字 🙂",
		"a\x1b[31mred":         `a\x1b[31mred`,
		"line\nnext\r\t":       `line\nnext\r\t`,
		"\u202egnp.exe":        `\u202egnp.exe`,
		"zero\u200bwidth":      `zero\u200bwidth`,
		"\u0085\u009b1m":       `\x85\x9b1m`,
		"bad \xff\xfe":         `bad \xff\xfe`,
		"sep\u2028arator":      `sep\u2028arator`,
		"\U000e0041tag":        `\U000e0041tag`,
		"soft\u00adhyphen\x7f": `soft\xadhyphen\x7f`,
	} {
		if got := Escape(in); got != want {
			t.Errorf("Escape(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("a\x1b]0;title\x07\u202e\xff")
	f.Fuzz(func(t *testing.T, in string) {
		out := Escape(in)
		if !utf8.ValidString(out) || strings.ContainsFunc(out, unsafe) {
			t.Errorf("Escape(%q) = %q lets something through", in, out)
		}
		if Escape(out) != out {
			t.Errorf("Escape(%q) is not stable", in)
		}
	})
}

func TestWriterLeavesOutSequencesHoweverTheyAreCut(t *testing.T) {
	const in = "one\x1b[1;31mred\x1b[0m\r\ntwo\t\x1b]0;title\x07x\x1b]8;;u\x1b\\y\x1b(Bz é\u202e \xff!\x1bcend\n"
	const want = "onered\ntwo\txyz é\\u202e \\xff!end\n"
	for piece := 1; piece <= len(in); piece++ {
		var out bytes.Buffer
		w := NewWriter(&out)
		for rest := in; rest != ""; {
			n := min(piece, len(rest))
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Fatalf("in pieces of %d (-want +got):\n%s", piece, diff)
		}
	}
}

func TestWriterIsNotSwallowedByASequenceWithoutEnd(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	w.Write([]byte("\x1b]0;" + strings.Repeat("a", 2*maxSequence) + "\nrm -rf\n"))
	if !strings.HasSuffix(out.String(), "a\nrm -rf\n") {
		t.Errorf("the rest was swallowed: %q", out.String())
	}
}

func FuzzWriter(f *testing.F) {
	f.Add([]byte("a\x1b[31m\xc3"), []byte("\xa9\x1b]0;"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var out bytes.Buffer
		w := NewWriter(&out)
		w.Write(a)
		w.Write(b)
		if strings.ContainsFunc(strings.NewReplacer("\n", "", "\t", "").Replace(out.String()), unsafe) {
			t.Errorf("%q and %q came out as %q", a, b, out.String())
		}
	})
}

func TestTableAlignsAndEscapes(t *testing.T) {
	table := NewTable("NAME", "STATUS")
	table.Row("långt-namn", "running")
	table.Row("x\nforged  running", "stopped")
	var out bytes.Buffer
	testdir.Must(t, table.Write(&out))
	want := "NAME                STATUS\n" +
		"långt-namn          running\n" +
		`x\nforged  running  stopped` + "\n"
	testdir.Same(t, "table", want, out.String())
}

func TestJSONIsSafeAndMeansTheSame(t *testing.T) {
	in := map[string]string{"name": "a\x1b[31m\u202e\U000e0041\n\u009b"}
	var out bytes.Buffer
	testdir.Must(t, JSON(&out, in))
	if strings.ContainsFunc(strings.ReplaceAll(out.String(), "\n", ""), unsafe) {
		t.Errorf("JSON lets something through: %q", out.String())
	}
	var back map[string]string
	testdir.Must(t, json.Unmarshal(out.Bytes(), &back))
	testdir.Same(t, "round trip", in, back)
}

func TestTableFits(t *testing.T) {
	table := NewTable("NAME", "STATE", "BRANCH")
	table.Row(strings.Repeat("n", 60), "ended 1", strings.Repeat("b", 50))
	table.Row("x\x1b", "stopped", "main")
	table.Fit(40, 0, 2)
	var out bytes.Buffer
	testdir.Must(t, table.Write(&out))
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(line) - 1; n > 40 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	if !strings.Contains(out.String(), "nnn…") || !strings.Contains(out.String(), "bbb…") || !strings.Contains(out.String(), `x\x1b `) {
		t.Error(out.String())
	}
}

func TestNames(t *testing.T) {
	for want, names := range map[string][]string{
		"": nil, "a, b": {"a", "b"}, `\x1b[31m, x`: {"\x1b[31m", "x"},
		"1, 2, 3, 4, 5, 6, 7, 8, 9, 10":            strings.Fields("1 2 3 4 5 6 7 8 9 10"),
		"1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more": strings.Fields("1 2 3 4 5 6 7 8 9 10 11 12"),
	} {
		if got := Names(names); got != want {
			t.Errorf("%q are %q, want %q", names, got, want)
		}
	}
}
