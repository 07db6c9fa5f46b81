package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

const hashTail = `"hash":""}` // how a line ends before its hash is known

// appendLine appends e's line, without the newline, and sets e.Hash. The line is what
// encoding/json makes of e, but ASCII alone (see appendText). It is written for each thing that
// a sandbox does, before that goes on: so it is put together by hand.
func appendLine(b []byte, e *Event) ([]byte, error) {
	begin := len(b)
	b, err := appendFields(b, e)
	if err != nil {
		return nil, err
	}
	b = append(b, hashTail...)
	sum := sha256.Sum256(b[begin:])
	e.Hash = hex.EncodeToString(sum[:])
	b = append(b[:len(b)-2], e.Hash...)
	return append(b, `"}`...), nil
}

// appendFields appends all of e before its hash, in the order of Event.
func appendFields(b []byte, e *Event) ([]byte, error) {
	b = strconv.AppendUint(append(b, `{"seq":`...), e.Seq, 10)
	b, err := e.Time.AppendText(append(b, `,"time":"`...))
	if err != nil {
		return nil, err
	}
	b = appendText(append(b, `","sandbox":`...), e.Sandbox)
	b = appendText(append(b, `,"kind":`...), string(e.Kind))
	b = appendString(b, `,"verdict":`, e.Verdict)
	b = appendString(b, `,"host":`, e.Host)
	b = appendInt(b, `,"port":`, int64(e.Port))
	b = appendString(b, `,"method":`, e.Method)
	b = appendString(b, `,"path":`, e.Path)
	b = appendString(b, `,"rule":`, e.Rule)
	b = appendString(b, `,"reason":`, e.Reason)
	b = appendInt(b, `,"status":`, int64(e.Status))
	b = appendInt(b, `,"durationMs":`, e.Millis)
	b = appendString(b, `,"secret":`, e.Secret)
	b = appendString(b, `,"model":`, e.Model)
	b = appendInt(b, `,"tokensIn":`, e.TokensIn)
	b = appendInt(b, `,"tokensOut":`, e.TokensOut)
	if e.Cost != 0 {
		cost, err := json.Marshal(e.Cost)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"cost":`...), cost...)
	}
	if e.Monitored {
		b = append(b, `,"monitored":true`...)
	}
	b = appendInt(b, `,"bytesIn":`, e.BytesIn)
	b = appendInt(b, `,"bytesOut":`, e.BytesOut)
	b = appendText(append(b, `,"prev":`...), e.Prev)
	return append(b, ','), nil
}

// appendString appends a field that is left out when it is empty.
func appendString(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendText(append(b, name...), value)
}

// appendInt appends a field that is left out when it is 0.
func appendInt(b []byte, name string, value int64) []byte {
	if value == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), value, 10)
}

const hexDigits = "0123456789abcdef"

// appendText appends a JSON string. DEL and whatever is not ASCII is written as \uXXXX, so that
// no control and no bidirectional character reaches a terminal that shows the
// file as it is.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	for plain := 0; len(s) > 0; plain = 0 {
		for plain < len(s) && isPlain(s[plain]) {
			plain++
		}
		b = append(b, s[:plain]...)
		if s = s[plain:]; s == "" {
			break
		}
		r, size := utf8.DecodeRuneInString(s) // what is no UTF-8 becomes U+FFFD
		b = appendEscape(b, r)
		s = s[size:]
	}
	return append(b, '"')
}

// isPlain says whether a byte stands for itself in a line.
func isPlain(c byte) bool {
	return c >= ' ' && c < 0x7f && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
}

func appendEscape(b []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(b, '\\', byte(r))
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	if r > 0xffff {
		r -= 0x10000
		return appendUnit(appendUnit(b, 0xd800+r>>10), 0xdc00+r&0x3ff)
	}
	return appendUnit(b, r)
}

// appendUnit appends \uXXXX for a code unit of UTF-16.
func appendUnit(b []byte, u rune) []byte {
	return append(b, '\\', 'u', hexDigits[u>>12&15], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
}
