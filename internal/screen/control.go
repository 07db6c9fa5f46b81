package screen

import (
	"strconv"
	"strings"
)

// maxNumber bounds the parameters of control sequences.
const maxNumber = 9999

// drawing are the control sequences that programs which print line after line don't use.
const drawing = "ABEFHLMSTdfr"

// run does one control sequence: its last byte, and what is before it.
func (s *Screen) run(final byte, text string) {
	if rest, private := strings.CutPrefix(text, "?"); private {
		if final == 'h' || final == 'l' {
			s.mode(rest, final == 'h')
		}
		return
	}
	if strings.Trim(text, "0123456789;") != "" {
		return // of another kind, such as that of the keyboard
	}
	s.Drawn = s.Drawn || strings.IndexByte(drawing, final) >= 0
	numbers := parameters(text)
	first, second := at(numbers, 0), at(numbers, 1)
	n := max(first, 1)
	switch final {
	case 'A':
		s.move(s.x, s.y-n)
	case 'B', 'e':
		s.move(s.x, s.y+n)
	case 'C', 'a':
		s.move(s.x+n, s.y)
	case 'D':
		s.move(s.x-n, s.y)
	case 'E':
		s.move(0, s.y+n)
	case 'F':
		s.move(0, s.y-n)
	case 'G', '`':
		s.move(n-1, s.y)
	case 'H', 'f':
		s.move(second-1, n-1)
	case 'd':
		s.move(s.x, n-1)
	case 'J':
		s.eraseScreen(first)
	case 'K':
		s.eraseLine(first)
	case 'X':
		clear(s.lines[s.y][s.x:min(s.x+n, s.columns)])
	case 'P':
		line := s.lines[s.y][s.x:]
		n = min(n, len(line))
		copy(line, line[n:])
		clear(line[len(line)-n:])
	case '@':
		line := s.lines[s.y][s.x:]
		n = min(n, len(line))
		copy(line[n:], line)
		clear(line[:n])
	case 'L', 'M':
		if s.y < s.top || s.y > s.bottom {
			return
		}
		if final == 'L' {
			n = -n
		}
		s.shift(n)
	case 'S':
		s.scroll(s.top, n)
	case 'T':
		s.scroll(s.top, -n)
	case 'r':
		s.region(first, second)
	case 's':
		s.savedX, s.savedY = s.x, s.y
	case 'u':
		s.move(s.savedX, s.savedY)
	case 't':
		if first == 8 && len(numbers) == 3 { // from the guest: the window has another size
			s.resize(numbers[2], second)
		}
	}
}

func parameters(text string) []int {
	var numbers []int
	for part := range strings.SplitSeq(text, ";") {
		n, err := strconv.Atoi(part)
		if err != nil && part != "" {
			n = maxNumber
		}
		numbers = append(numbers, min(n, maxNumber))
	}
	return numbers
}

// at is a parameter; 0 if there is none.
func at(numbers []int, i int) int {
	if i < len(numbers) {
		return numbers[i]
	}
	return 0
}

// shift inserts or deletes lines where the cursor is. Nothing of that is kept.
func (s *Screen) shift(n int) {
	kept := len(s.above)
	s.scroll(s.y, n)
	s.above = s.above[:min(kept, len(s.above))]
}

func (s *Screen) region(first, last int) {
	top, bottom := max(first, 1)-1, min(last, s.rows)-1
	if last == 0 {
		bottom = s.rows - 1
	}
	if top < bottom {
		s.top, s.bottom = top, bottom
		s.move(0, 0)
	}
}

// eraseScreen erases from the cursor on, up to it, everything, or what has scrolled away.
func (s *Screen) eraseScreen(what int) {
	switch what {
	case 0:
		s.eraseLine(0)
		for _, line := range s.lines[s.y+1:] {
			clear(line)
		}
	case 1:
		s.eraseLine(1)
		for _, line := range s.lines[:s.y] {
			clear(line)
		}
	case 2:
		s.clearScreen()
	case 3:
		s.Dropped += len(s.above)
		s.above = nil
	}
}

func (s *Screen) eraseLine(what int) {
	line := s.lines[s.y]
	switch what {
	case 0:
		clear(line[s.x:])
	case 1:
		clear(line[:s.x+1])
	case 2:
		clear(line)
	}
}

// mode switches the alternate screen on or off; no other mode changes what is shown.
func (s *Screen) mode(text string, on bool) {
	for mode := range strings.SplitSeq(text, ";") {
		if mode != "47" && mode != "1047" && mode != "1049" || on == (s.main != nil) {
			continue
		}
		s.Drawn = true
		if on {
			s.savedX, s.savedY = s.x, s.y
			s.main, s.lines = s.lines, s.blank()
			continue
		}
		s.lines, s.main = s.main, nil
		s.move(s.savedX, s.savedY)
	}
}
