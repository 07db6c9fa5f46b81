package term

import (
	"io"
	"strings"
	"unicode/utf8"
)

// maxSequence bounds a terminal control sequence, in bytes: one that is longer
// is no sequence, and must not swallow what follows it.
const maxSequence = 256

// Writer passes on text that a terminal program wrote, without what would act
// on this terminal: control sequences (ECMA-48) and carriage returns are left out, line
// ends and tabs stay, and the rest is as Escape writes it. It may be
// written to in pieces that cut characters and sequences.
type Writer struct {
	w       io.Writer
	state   state
	held    []byte // a character or sequence that is not whole yet
	escaped strings.Builder
}

// NewWriter makes a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

type state uint8

const (
	ground  state = iota
	escape        // after ESC
	control       // after ESC [
	text          // after ESC and one of ] P X ^ _: up to BEL or ESC \
	textEnd       // in text, after ESC
)

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	w.escaped.Reset()
	for _, c := range p {
		w.step(c)
	}
	if _, err := io.WriteString(w.w, w.escaped.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *Writer) step(c byte) {
	w.held = append(w.held, c)
	switch w.state {
	case ground:
		if c == 0x1b && len(w.held) == 1 {
			w.state = escape
			return
		}
		w.print(false)
		return
	case escape:
		switch c {
		case '[':
			w.state = control
		case ']', 'P', 'X', '^', '_':
			w.state = text
		default:
			if c < 0x20 || c > 0x2f { // the end of a short sequence
				w.forget()
			}
		}
	case control:
		if c >= 0x40 && c <= 0x7e {
			w.forget()
		}
	case text:
		if c == 0x07 {
			w.forget()
		} else if c == 0x1b {
			w.state = textEnd
		}
	case textEnd:
		w.state = text
		if c == '\\' {
			w.forget()
		}
	}
	if len(w.held) > maxSequence {
		w.state = ground
		w.print(true)
	}
}

func (w *Writer) forget() { w.held, w.state = w.held[:0], ground }

// print writes the held characters, all of them, or those that are whole.
func (w *Writer) print(all bool) {
	for len(w.held) > 0 && (all || utf8.FullRune(w.held)) {
		r, size := utf8.DecodeRune(w.held)
		switch r {
		case '\n', '\t':
			w.escaped.WriteRune(r)
		case '\r':
		default:
			writeEscaped(&w.escaped, r, string(w.held[:size]))
		}
		w.held = append(w.held[:0], w.held[size:]...)
	}
}
