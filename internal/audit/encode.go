package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

const hashTail = `"hash":""}` // how a line ends before its hash is known

// appendLine appends e's line, without the newline, and sets e.Hash. The line is ASCII alone: no
// control and no bidirectional character reaches a terminal that shows the file as it is.
func appendLine(b []byte, e *Event) ([]byte, error) {
	begin := len(b)
	e.Hash = ""
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	for len(text) > 0 {
		if text[0] < 0x7f {
			b, text = append(b, text[0]), text[1:]
			continue
		}
		r, size := utf8.DecodeRune(text)
		for _, unit := range utf16.Encode([]rune{r}) {
			b = fmt.Appendf(b, `\u%04x`, unit)
		}
		text = text[size:]
	}
	sum := sha256.Sum256(b[begin:])
	e.Hash = hex.EncodeToString(sum[:])
	return append(append(b[:len(b)-2], e.Hash...), `"}`...), nil
}
