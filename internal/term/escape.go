// Package term is how Forage writes to people: tables, JSON, and the escaping of
// text that came from inside a sandbox. It decides nothing and reads nothing.
package term

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape makes untrusted text safe to print on a terminal, on one line:
// control characters, what changes the direction or is invisible (bidirectional
// controls, zero-width characters; Unicode categories Cc, Cf, Zl, Zp, Co) and bytes that
// are no UTF-8 are written as \n, \x1b or \u202e are in Go.
func Escape(text string) string {
	at := strings.IndexFunc(text, unsafe)
	if at < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text) + 16)
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		writeEscaped(&b, r, text[:size])
		text = text[size:]
	}
	return b.String()
}

// unsafe says whether a terminal might do something with r but show it.
func unsafe(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7f
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co) ||
		unicode.Is(unicode.Variation_Selector, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// writeEscaped writes one character; raw is what it was decoded from.
func writeEscaped(b *strings.Builder, r rune, raw string) {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		fmt.Fprintf(b, `\x%02x`, raw[0])
	case !unsafe(r):
		b.WriteString(raw)
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\r':
		b.WriteString(`\r`)
	case r == '\t':
		b.WriteString(`\t`)
	case r < 0x100:
		fmt.Fprintf(b, `\x%02x`, r)
	case r < 0x10000:
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		fmt.Fprintf(b, `\U%08x`, r)
	}
}
