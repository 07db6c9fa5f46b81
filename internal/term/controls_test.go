package term

import (
	"bytes"
	"strings"
	"testing"
)

func TestControls(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, in, out, undo string
		asked               bool
	}{
		{name: "text", in: "plain\r\n\té漢 \xc2\xa0\xff\x07", out: "plain\r\n\té漢 \xc2\xa0\xff\x07"},
		{name: "colours and a link", in: "\x1b[1;31mred\x1b[0m\x1b]8;;https://a.test\x1b\\x\x1b]8;;\x07", out: "\x1b[1;31mred\x1b[0m\x1b]8;;https://a.test\x1b\\x\x1b]8;;\x07"},
		{name: "a colour that stays", in: "\x1b[31mred", out: "\x1b[31mred", undo: "\x1b[m"},
		{name: "the clipboard", in: "a\x1b]52;c;YQ==\x07b\x1b]52;c;?\x1b\\c\xc2\x9d52;c;YQ==\x07d\x1b]1337;Copy=:YQ==\x07e", out: "abcde", asked: true},
		{name: "the clipboard, wrapped for tmux and screen", in: "\x1bPtmux;\x1b\x1b]52;c;YQ==\x07\x1b\\a\x1bP\x1b]52;c;YQ==\x07\x1b\\b", out: "\x1bPtmux;\x18\x1b\\a\x1bP\x18\x1b\\b", asked: true},
		{name: "titles", in: "\x1b]0;a\x07\x1b]2;b\x1b\\\x1bkc\x1b\\\x1b]lx\x07d", out: "d"},
		{name: "a title that is typed back", in: "\x1b[21tx\x05", out: "x", asked: true},
		{name: "a number that is no number", in: "\x1b]" + strings.Repeat("0", 1000) + "52;c;YQ==\x07x", out: "x"},
		{name: "a sequence without an end", in: "\x1b[" + strings.Repeat("1;", 1000) + "mx", out: "x"},
		{name: "line ends within a sequence", in: "\x1b[1\nhx", out: "\n\x1b[1hx"},
		{
			name: "a program that takes the whole screen", in: "\x1b[?1049h\x1b[?25l\x1b[?1002;1006h\x1b[?2004h\x1b[?1h\x1b=\x1b[>1u\x1b[2;10r\x1b[4 q\x1b(0\x0e",
			out:  "\x1b[?1049h\x1b[?25l\x1b[?1002;1006h\x1b[?2004h\x1b[?1h\x1b=\x1b[>1u\x1b[2;10r\x1b[4 q\x1b(0\x0e",
			undo: "\x1b[?1l\x1b[?25h\x1b[?1002l\x1b[?1006l\x1b[?1049l\x1b[?2004l\x1b[<1u\x0f\x1b(B\x1b7\x1b[r\x1b8\x1b>\x1b[0 q", asked: true,
		},
		{name: "one that puts it back itself", in: "\x1b[?1049h\x1b[?25l\x1b[?25h\x1b[?1049l", out: "\x1b[?1049h\x1b[?25l\x1b[?25h\x1b[?1049l"},
		{name: "questions", in: "\x1b[6n", out: "\x1b[6n", asked: true},
		{name: "a colour that is asked for", in: "\x1b]11;?\x07", out: "\x1b]11;?\x07", asked: true},
		{name: "a string without an end", in: "\x1b]8;;x", out: "\x1b]8;;x", undo: "\x18"},
	} {
		for _, size := range []int{1, 1 << 20} {
			var out bytes.Buffer
			c := Controls{Out: &out}
			for in := []byte(test.in); len(in) > 0; {
				n := min(size, len(in))
				if written, err := c.Write(in[:n]); written != n || err != nil {
					t.Fatal(written, err)
				}
				in = in[n:]
			}
			undo, asked := c.Undo()
			if out.String() != test.out || undo != test.undo || asked != test.asked {
				t.Errorf("%s, %d bytes at once: %q, undone by %q, asked: %v", test.name, size, out.String(), undo, asked)
			}
		}
	}
	var out bytes.Buffer
	c := Controls{Out: &out, Clipboard: true, Title: true}
	const allowed = "\x1b]52;c;YQ==\x07\x1b]0;a\x07\x1bkb\x1b\\"
	if c.Write([]byte(allowed)); out.String() != allowed {
		t.Errorf("of what is allowed %q is left", out.String())
	}
}

// However a program's output is cut, the same comes out, and no more than went in.
func FuzzControls(f *testing.F) {
	f.Add([]byte("\x1b]52;c;YQ==\x07\x1b[?1h\xc2\x9d0;a\x1b\\"), 3)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		cut = max(0, min(cut, len(in)))
		var whole, parts bytes.Buffer
		one, two := Controls{Out: &whole}, Controls{Out: &parts}
		one.Write(in)
		two.Write(in[:cut])
		two.Write(in[cut:])
		if whole.String() != parts.String() || bytes.Contains(whole.Bytes(), []byte("\x1b]52;")) {
			t.Errorf("%q and %q", whole.String(), parts.String())
		}
	})
}
