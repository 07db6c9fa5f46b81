package reviewscreen

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"forage/internal/term"
	"forage/internal/workspace/review"
)

// page is the diff of one file, laid out in rows of one width.
type page struct {
	review.FileDiff
	head     []string // above the diff, escaped
	top      []string // head at this width
	language *language
	within   [][]uint8 // by hunk and line: what the line begins in, see language.scan
	rows     []row
	width    int
	digits   int    // of line numbers
	unseen   []bool // rows, of top first, that were not on the screen at this width
}

// row is one row of the screen: bytes from..to of a line, or with line -1 the head of a hunk.
type row struct {
	hunk, line, number int32
	from, to           int32
}

func newPage(file string, head []string, d review.FileDiff) *page {
	p := &page{FileDiff: d, head: head, language: languageOf(file), digits: 1}
	for _, h := range d.Hunks {
		var before, after int
		states := make([]uint8, len(h.Lines))
		ignore := func(string, int) {}
		for i, line := range h.Lines {
			states[i] = uint8(after)
			if line.Kind == '-' {
				states[i] = uint8(before)
			}
			if line.Kind != '+' {
				before = p.language.scan(line.Text, before, ignore)
			}
			if line.Kind != '-' {
				after = p.language.scan(line.Text, after, ignore)
			}
		}
		p.within = append(p.within, states)
		p.digits = max(p.digits, len(strconv.Itoa(max(h.Old+h.OldLines, h.New+h.NewLines))))
	}
	return p
}

// margin is what is before a line: a mark, its number and what happened to it.
func (p *page) margin() int { return p.digits + 4 }

// layOut makes rows of this width. All of a line is shown: what a cut line hides could be the point.
func (p *page) layOut(width int) {
	if p.width == width {
		return
	}
	p.width, p.rows, p.top, p.unseen = width, nil, wrap(p.head, width-1), nil
	room := max(12, width-p.margin())
	for i, h := range p.Hunks {
		p.rows = append(p.rows, row{hunk: int32(i), line: -1})
		old, new := h.Old, h.New
		for j, line := range h.Lines {
			number := new
			if line.Kind == '-' {
				number = old
			}
			if line.Kind != '-' {
				new++
			}
			if line.Kind != '+' {
				old++
			}
			for from := 0; ; {
				to := fit(line.Text, from, room)
				p.rows = append(p.rows, row{int32(i), int32(j), int32(number), int32(from), int32(to)})
				if from = to; from >= len(line.Text) {
					break
				}
			}
		}
	}
}

// show notes that these rows of all are on the screen, and says whether each of them has been.
func (p *page) show(from, to, all int) bool {
	if p.unseen == nil {
		p.unseen = slices.Repeat([]bool{true}, all)
	}
	clear(p.unseen[from:to])
	return !slices.Contains(p.unseen, true)
}

// maxCell bounds what is in a cell on average, in bytes: signs of no width can be any number.
const maxCell = 16

// fit is how far a text from here goes into so many cells.
func fit(text string, from, room int) int {
	at, used := from, 0
	for at < len(text) && at-from < room*maxCell {
		_, width, size := cell(text[at:])
		if used+width > room && at > from {
			break
		}
		used, at = used+width, at+size
	}
	return at
}

// cell is the first character as it is shown, its width, and the bytes that it was.
func cell(text string) (shown string, width, size int) {
	switch c := text[0]; {
	case c == '\t':
		return "    ", 4, 1
	case c >= ' ' && c < 0x7f:
		return text[:1], 1, 1
	}
	_, size = utf8.DecodeRuneInString(text)
	shown = term.Escape(text[:size])
	return shown, ansi.StringWidthWc(shown), size
}

// draw is a row for the screen. Styles apart, all of it is escaped.
func (p *page) draw(r row, mark, box string, colour bool) string {
	h := p.Hunks[r.hunk]
	style := func(text, with string) string {
		if with == "" || !colour {
			return text
		}
		return with + text + term.Plain
	}
	if r.line < 0 {
		return mark + box + style(" "+h.Head(), term.Cyan)
	}
	line := h.Lines[r.line]
	base := map[byte]string{'+': term.Green, '-': term.Red}[line.Kind]
	number := ""
	if r.from == 0 {
		number = strconv.Itoa(int(r.number))
	}
	var out strings.Builder
	out.WriteString(mark + style(fmt.Sprintf("%*s %c ", p.digits, number, line.Kind), base))
	at := 0
	p.language.scan(line.Text, int(p.within[r.hunk][r.line]), func(kind string, end int) {
		from, to := max(at, int(r.from)), min(end, int(r.to))
		at = end
		var piece strings.Builder
		for from < to {
			shown, _, size := cell(line.Text[from:])
			piece.WriteString(shown)
			from += size
		}
		if kind == plainText {
			kind = base
		}
		if piece.Len() > 0 {
			out.WriteString(style(piece.String(), kind))
		}
	})
	if line.Open && int(r.to) == len(line.Text) {
		out.WriteString(style(" (no end of line)", comment))
	}
	return out.String()
}
