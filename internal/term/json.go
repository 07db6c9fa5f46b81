package term

import (
	"fmt"
	"unicode/utf8"
)

// jsonSafe writes the characters of JSON text that Escape would not let
// through as \uXXXX. encoding/json has escaped the control characters below
// 0x20 already, so that what is left stands inside strings.
func jsonSafe(text []byte) []byte {
	safe := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == '\n' || !unsafe(r):
			safe = append(safe, text[:size]...)
		case r < 0x10000:
			safe = fmt.Appendf(safe, `\u%04x`, r)
		default:
			r -= 0x10000
			safe = fmt.Appendf(safe, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		}
		text = text[size:]
	}
	return safe
}
