// Package screen is a terminal that draws into memory. It says as text what a program's output
// shows, and what has scrolled away. It knows cursor movement, erasing, scrolling and the alternate
// screen (ECMA-48, DEC VT, xterm's ctlseqs), no colours and no input. Its input is untrusted, so
// everything is bounded.
package screen

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Bounds, in characters, lines, and bytes of a sequence.
const (
	MaxColumns, MaxRows = 300, 100
	maxAbove            = 10000
	maxSequence         = 4096
)

// The first characters that are shown on the one before, and that take two cells.
const (
	firstMark = 0xad
	firstWide = 0x1100
)

// wideEnd is in the cell behind a character that takes two.
const wideEnd = -1

// Screen is a terminal. Make it with New.
type Screen struct {
	// Dropped is how many lines have scrolled away and are not kept any more.
	Dropped int
	// Drawn: something was drawn other than line after line.
	Drawn bool

	columns, rows int
	lines, main   [][]rune // main is what lies under the alternate screen; nil without one
	above         []string // scrolled away, the oldest first
	x, y          int
	savedX        int
	savedY        int
	top, bottom   int  // the lines that scroll
	wrap          bool // the next character begins a new line

	state    state
	sequence []byte // parameters of the sequence that is being read
	length   int
	held     []byte // a character that is not whole yet
}

type state uint8

const (
	ground  state = iota
	escape        // after ESC
	other         // after ESC and an intermediate byte
	control       // after ESC [
	text          // in a string, up to BEL or ESC \
	textEnd       // in a string, after ESC
)

// New makes a terminal of that size.
func New(columns, rows int) *Screen {
	s := &Screen{}
	s.resize(columns, rows)
	return s
}

// Above is how many of Lines have scrolled away, and stay as they are.
func (s *Screen) Above() int { return len(s.above) }

// Lines are what has scrolled away and what is shown, without what is empty at the end.
func (s *Screen) Lines() []string {
	all := slices.Clone(s.above)
	for _, line := range append(slices.Clone(s.main), s.lines...) {
		all = append(all, lineText(line))
	}
	for len(all) > 0 && all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

func lineText(line []rune) string {
	var b strings.Builder
	for _, c := range line {
		switch c {
		case wideEnd:
		case 0:
			b.WriteByte(' ')
		default:
			b.WriteRune(c)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// Write draws p; it never fails.
func (s *Screen) Write(p []byte) (int, error) {
	for _, c := range p {
		s.step(c)
	}
	return len(p), nil
}

func (s *Screen) step(c byte) {
	if s.state != ground {
		if s.length++; s.length > maxSequence || c == 0x18 || c == 0x1a {
			s.state = ground
			return
		}
	}
	switch {
	case c == 0x1b && s.state == text:
		s.state = textEnd
	case c == 0x1b:
		s.state, s.length, s.held = escape, 0, s.held[:0]
	case s.state == text:
		if c == 0x07 {
			s.state = ground
		}
	case s.state == textEnd:
		s.state = text
		if c == '\\' {
			s.state = ground
		}
	case c < 0x20 || c == 0x7f: // also within a sequence
		switch c {
		case '\r':
			s.move(0, s.y)
		case '\n', '\v', '\f':
			s.lineFeed()
		case '\b':
			s.move(s.x-1, s.y)
		case '\t':
			s.move((s.x/8+1)*8, s.y)
		}
	case s.state == escape:
		s.escaped(c)
	case s.state == other:
		if c >= 0x30 {
			s.state = ground
		}
	case s.state == control && c < 0x40:
		s.sequence = append(s.sequence, c)
	case s.state == control:
		s.state = ground
		s.run(c, string(s.sequence))
	default:
		s.held = append(s.held, c)
		if utf8.FullRune(s.held) {
			r, _ := utf8.DecodeRune(s.held)
			s.held = s.held[:0]
			s.print(r)
		}
	}
}

func (s *Screen) escaped(c byte) {
	s.state = ground
	switch c {
	case '[':
		s.state, s.sequence = control, s.sequence[:0]
	case ']', 'P', 'X', '^', '_':
		s.state = text
	case '7':
		s.savedX, s.savedY = s.x, s.y
	case '8':
		s.move(s.savedX, s.savedY)
	case 'D':
		s.lineFeed()
	case 'E':
		s.lineFeed()
		s.move(0, s.y)
	case 'M':
		s.Drawn = true
		if s.y == s.top {
			s.scroll(s.top, -1)
		} else {
			s.move(s.x, s.y-1)
		}
	case 'c':
		s.clearScreen()
		s.move(0, 0)
	default:
		if c < 0x30 {
			s.state = other
		}
	}
}

// print puts one character where the cursor is.
func (s *Screen) print(r rune) {
	cells := 1
	kind := width.Neutral
	if r >= firstWide {
		kind = width.LookupRune(r).Kind()
	}
	switch {
	case r >= firstMark && unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Variation_Selector):
		return // it would be shown on the character before
	case (kind == width.EastAsianWide || kind == width.EastAsianFullwidth) && s.columns > 1:
		cells = 2
	}
	if s.wrap || s.x+cells > s.columns {
		s.lineFeed()
		s.x = 0
	}
	s.wrap = false
	s.lines[s.y][s.x] = r
	if cells == 2 {
		s.lines[s.y][s.x+1] = wideEnd
	}
	s.x += cells
	if s.x >= s.columns {
		s.x, s.wrap = s.columns-1, true
	}
}

func (s *Screen) move(x, y int) {
	s.x, s.y, s.wrap = min(max(x, 0), s.columns-1), min(max(y, 0), s.rows-1), false
}

func (s *Screen) lineFeed() {
	if s.y == s.bottom {
		s.scroll(s.top, 1)
		s.wrap = false
		return
	}
	s.move(s.x, s.y+1)
}

// scroll moves the lines from top on up by n, or down by -n. What leaves the main screen at its top
// is kept.
func (s *Screen) scroll(top, n int) {
	region := s.lines[top : s.bottom+1]
	n = max(min(n, len(region)), -len(region))
	for ; n > 0; n-- {
		if top == 0 && s.main == nil {
			s.keep(region[0])
		}
		first := region[0]
		copy(region, region[1:])
		clear(first)
		region[len(region)-1] = first
	}
	for ; n < 0; n++ {
		last := region[len(region)-1]
		copy(region[1:], region)
		clear(last)
		region[0] = last
	}
}

func (s *Screen) keep(line []rune) {
	if len(s.above) >= maxAbove {
		s.Dropped += maxAbove / 4
		s.above = slices.Delete(s.above, 0, maxAbove/4)
	}
	s.above = append(s.above, lineText(line))
}

// clearScreen keeps what was shown, as tmux does.
func (s *Screen) clearScreen() {
	last := -1
	for i, line := range s.lines {
		if lineText(line) != "" {
			last = i
		}
	}
	for _, line := range s.lines[:last+1] {
		if s.main == nil {
			s.keep(line)
		}
		clear(line)
	}
}

func (s *Screen) blank() [][]rune {
	lines := make([][]rune, s.rows)
	for i := range lines {
		lines[i] = make([]rune, s.columns)
	}
	return lines
}

// resize keeps what fits; what was above the cursor's line and does not fit scrolls away.
func (s *Screen) resize(columns, rows int) {
	columns, rows = min(max(columns, 1), MaxColumns), min(max(rows, 1), MaxRows)
	if columns == s.columns && rows == s.rows {
		return
	}
	s.bottom = len(s.lines) - 1
	if over := s.y - rows + 1; over > 0 {
		s.scroll(0, over)
		s.y -= over
	}
	s.columns, s.rows = columns, rows
	for _, lines := range []*[][]rune{&s.lines, &s.main} {
		if *lines == nil && lines == &s.main {
			continue
		}
		now := s.blank()
		for i := range min(len(now), len(*lines)) {
			copy(now[i], (*lines)[i])
		}
		*lines = now
	}
	s.top, s.bottom = 0, rows-1
	s.move(s.x, s.y)
}
