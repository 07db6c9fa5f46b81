package credential

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"unsafe"
)

const (
	// needleMin is the length of the shortest text that is looked for: less would
	// be found by chance, and spoil answers.
	needleMin = 6
	// codedMin is that of encoded forms of which the ends are not known.
	codedMin = 12
	// head is how much of a needle is searched for before the rest is compared: as much
	// as the processor compares at once.
	head = 32
	// needlesUsual is how many there are at most of most secrets: of an AWS key with a session 27.
	needlesUsual = 32
)

// needles are the texts that must not be seen in an answer: a secret in the forms in which
// a server may show it. None is part of another, so that of two that are
// found, the one that begins first also ends first.
type needles struct {
	texts []string
	lower []string // in lower case
	fill  byte     // in none of the texts
	max   int      // length of the longest
}

// newNeedles finds the forms of values. nil is what has nothing to look for.
func newNeedles(values []string) *needles {
	var forms []string
	for _, v := range values {
		if len(v) >= needleMin {
			forms = append(append(forms, v), encoded(v)...)
		}
	}
	slices.SortStableFunc(forms, func(a, b string) int { return len(a) - len(b) })
	n := &needles{}
	for _, form := range forms {
		if len(form) < needleMin {
			continue
		}
		if !slices.ContainsFunc(n.texts, func(part string) bool { return strings.Contains(form, part) }) {
			n.texts = append(n.texts, form)
			n.lower = append(n.lower, strings.ToLower(form))
			n.max = max(n.max, len(form))
		}
	}
	if len(n.texts) == 0 {
		return nil
	}
	n.fill = '*'
	for c := byte('!'); c <= '~' && n.has(n.fill); c++ {
		n.fill = c
	}
	return n
}

func (n *needles) has(c byte) bool {
	return slices.ContainsFunc(n.texts, func(text string) bool { return strings.IndexByte(text, c) >= 0 })
}

// encoded are the forms that v has inside JSON, URLs, HTML, base64 and hexadecimal, and in the
// other case where it has one.
func encoded(v string) []string {
	forms := []string{url.QueryEscape(v), url.PathEscape(v), hex.EncodeToString([]byte(v)), strings.ToUpper(hex.EncodeToString([]byte(v)))}
	forms = append(forms, lowerEscapes(forms[0]), lowerEscapes(forms[1]))
	if text, err := json.Marshal(v); err == nil {
		inner := string(text[1 : len(text)-1])
		plain := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(inner)
		forms = append(forms, inner, plain, strings.ReplaceAll(plain, "/", `\/`))
	}
	forms = append(forms, strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(v),
		strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;").Replace(v))
	if other := strings.ToUpper(v); other != v && strings.ToLower(v) == v { // such as a hexadecimal key, which is as good in the other case
		forms = append(forms, other)
	} else if other := strings.ToLower(v); other != v && strings.ToUpper(v) == v {
		forms = append(forms, other)
	}
	for shift := range 3 {
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			if text := inBase64(v, shift, enc); len(text) >= codedMin {
				forms = append(forms, text)
			}
		}
	}
	return forms
}

// inBase64 is the part of v's base64 that depends on v alone when shift bytes stand
// before it, and whatever behind.
func inBase64(v string, shift int, enc *base64.Encoding) string {
	text := enc.EncodeToString(append(make([]byte, shift), v...))
	start := (shift*8 + 5) / 6      // the first character with bits of v alone
	end := (shift + len(v)) * 8 / 6 // behind the last
	return text[min(start, end):end]
}

// lowerEscapes is text with its percent-encoding in lower case.
func lowerEscapes(text string) string {
	out := []byte(text)
	for i := 0; i+2 < len(out); i++ {
		if out[i] == '%' {
			copy(out[i+1:], strings.ToLower(text[i+1:i+3]))
		}
	}
	return string(out)
}

// redact overwrites the needles in buf. What a needle may begin with is at its end: keep bytes
// of it have to be looked at again with what follows, and hold of those must not be passed on
// before. The first few bytes of a needle tell nothing, and may: a message that happens to end in
// them would be late, and its receiver would wait for ever if that is asked to go on first.
func (n *needles) redact(buf []byte) (keep, hold int) {
	return n.begun(buf[n.overwrite(buf):])
}

// overwrite overwrites the needles in buf and returns where the last of them ends.
func (n *needles) overwrite(buf []byte) (end int) {
	text := unsafe.String(unsafe.SliceData(buf), len(buf)) // read only where nothing is overwritten afterwards
	var usual [needlesUsual]int
	next := append(usual[:0], make([]int, len(n.texts))...) // where each is found next
	for {
		best, length := -1, 0
		for i, needle := range n.texts {
			if next[i] >= 0 && (next[i] < end || end == 0) {
				next[i] = find(text, needle, end)
			}
			if next[i] >= 0 && (best < 0 || next[i] < best) {
				best, length = next[i], len(needle)
			}
		}
		if best < 0 {
			return end
		}
		end = best + length
		for i := best; i < end; i++ {
			buf[i] = n.fill
		}
	}
}

// find is where a needle is in text from start on; -1 is nowhere.
func find(text, needle string, start int) int {
	short := needle[:min(len(needle), head)]
	for at := start; ; at++ {
		i := strings.Index(text[at:], short)
		if i < 0 {
			return -1
		}
		at += i
		if strings.HasPrefix(text[at:], needle) {
			return at
		}
	}
}

// free is how many bytes of a needle may be passed on before it is known to be one.
func free(needle string) int { return min(3, len(needle)/8) }

// begun is the length of the longest end of buf that a needle begins with, and of the longest
// that is more than what is free.
func (n *needles) begun(buf []byte) (keep, hold int) {
	text := unsafe.String(unsafe.SliceData(buf), len(buf))
	for _, needle := range n.texts {
		tail := text[max(0, len(text)-len(needle)+1):]
		for len(tail) > hold {
			i := strings.IndexByte(tail, needle[0])
			if i < 0 {
				break
			}
			if tail = tail[i:]; strings.HasPrefix(needle, tail) {
				keep = max(keep, len(tail))
				if len(tail) > free(needle) {
					hold = max(hold, len(tail))
				}
				break
			}
			tail = tail[1:]
		}
	}
	return keep, hold
}

// text is s without needles; it is s itself if there are none.
func (n *needles) text(s string) string {
	for _, needle := range n.texts {
		if find(s, needle, 0) >= 0 {
			buf := []byte(s)
			n.overwrite(buf)
			return string(buf)
		}
	}
	return s
}

// inName says whether a needle is in the name of a header, whose case has been changed.
func (n *needles) inName(name string) bool {
	if len(name) < len(n.texts[0]) { // the shortest
		return false
	}
	name = strings.ToLower(name)
	return slices.ContainsFunc(n.lower, func(text string) bool { return strings.Contains(name, text) })
}
