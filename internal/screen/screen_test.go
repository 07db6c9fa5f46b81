package screen

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestScreen(t *testing.T) {
	for name, test := range map[string]struct{ in, want string }{
		"lines":            {"one\r\ntwo\r\n", "one|two"},
		"colours":          {"\x1b[1;38;5;2mred\x1b[0m\x1b(B!", "red!"},
		"over it":          {"working\rdone\x1b[K", "done"},
		"wraps":            {"0123456789ab", "0123456789|ab"},
		"wraps late":       {"0123456789\r\nab", "0123456789|ab"},
		"scrolls away":     {"1\r\n2\r\n3\r\n4\r\n5\r\n6", "1|2|3|4|5|6"},
		"drawn again":      {"a\r\nspin -\r\nfoot\x1b[1A\r\x1b[2Kspin |\x1b[1B\rFOOT", "a|spin ||FOOT"},
		"absolute":         {"\x1b[2;3Hx\x1b[1;1Hy\x1b[4;10Hz", "y|  x||         z"},
		"cleared is kept":  {"old\x1b[2J\x1b[Hnew", "old|new"},
		"and thrown away":  {"old\x1b[2J\x1b[3J\x1b[Hnew", "new"},
		"erased":           {"abcdef\x1b[4D\x1b[1K\x1b[2Cx", "   dxf"},
		"inserted":         {"abc\r\x1b[2@\x1b[1C\x1b[1X", "  abc"},
		"deleted":          {"abcdef\r\x1b[2P", "cdef"},
		"lines in between": {"1\r\n2\r\n3\x1b[2;1H\x1b[Lx\x1b[3;1H\x1b[M", "1|x|3"},
		"a region":         {"1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\nx\x1b[r", "1|3|x|4"},
		"backwards":        {"1\r\n2\x1b[1;1H\x1bMx", "x|1|2"},
		"alternate":        {"shell\r\n\x1b[?1049h\x1b[Heditor\x1b[?1049lback", "shell|back"},
		"while alternate":  {"shell\r\n\x1b[?1049h\x1b[Heditor", "shell||||editor"},
		"wide":             {"漢字x\x1b[1;5H!", "漢字!"},
		"accents are left": {"e\u0301x\u200b", "ex"},
		"titles":           {"\x1b]0;t\x07a\x1b]8;;u\x1b\\b\x1bP1$r\x1b\\c", "abc"},
		"of the keyboard":  {"ab\x1b[>1u\x1b[?u\x1b[=0;1uc", "abc"},
		"bigger":           {"\x1b[8;6;20t0123456789ab\x1b[6;1Hx", "0123456789ab|||||x"},
		"smaller":          {"1\r\n2\r\n3\r\n4\x1b[8;2;10t!", "1|2|3|4!"},
		"cut":              {"a\xffb\xe6\xbc", "a\ufffdb"},
		"cancelled":        {"a\x1b[12\x18b", "ab"},
		"negative":         {"a\x1b[-5Pb\x1b[99999999999999999999Cc", "ab       c"},
	} {
		for _, piece := range []int{1, 3, 1 << 10} {
			s := New(10, 4)
			for rest := test.in; rest != ""; {
				n := min(piece, len(rest))
				s.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			if diff := cmp.Diff(test.want, strings.Join(s.Lines(), "|")); diff != "" {
				t.Errorf("%s in pieces of %d (-want +got):\n%s", name, piece, diff)
			}
		}
	}
}

func TestWhatScrolledAwayIsBounded(t *testing.T) {
	s := New(10, 4)
	for i := range 3 * maxAbove {
		fmt.Fprintf(s, "%d\r\n", i)
	}
	lines := s.Lines()
	if len(lines) > maxAbove+4 || lines[len(lines)-1] != fmt.Sprint(3*maxAbove-1) {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

// Whatever is written, the screen stays in its bounds and goes on.
func FuzzScreen(f *testing.F) {
	f.Add("a\x1b[2;3r\x1b[99L\x1b[-1M\x1b[8;1;1t漢\x1b[?1049h\x1b[8;900;900t\x1b[5S\x1b[5T\x1bM\x1b8\x1b[?47l\x1b[3J", uint8(10), uint8(4))
	f.Fuzz(func(t *testing.T, text string, columns, rows uint8) {
		s := New(int(columns), int(rows))
		s.Write([]byte(text))
		if len(s.held) > utf8.UTFMax || len(s.sequence) > maxSequence || len(s.above) > maxAbove || s.columns > MaxColumns || s.rows > MaxRows {
			t.Error("out of bounds")
		}
		if s.x >= s.columns || s.y >= s.rows || s.top > s.bottom || s.bottom >= s.rows || len(s.lines) != s.rows {
			t.Errorf("%d %d in %d %d, %d to %d", s.x, s.y, s.columns, s.rows, s.top, s.bottom)
		}
		s.Lines()
	})
}
