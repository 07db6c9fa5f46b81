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
	// tailMin is the length of the shortest beginning of a needle that is one where text ends.
	tailMin = 8
	// codedMin is that of encoded forms of which the ends are not known.
	codedMin = 12
)

// needles are the texts that must not be seen in an answer: a secret in the forms in which
// a server may show it. None is part of another, so that of two that are
// found, the one that begins first also ends first.
type needles struct {
	texts []string
	lower []string          // in lower case
	fill  byte              // in none of the texts
	max   int               // length of the longest
	masks *strings.Replacer // each of them by as many fills
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
	var pairs []string
	for _, text := range n.texts {
		pairs = append(pairs, text, strings.Repeat(string(n.fill), len(text)))
	}
	n.masks = strings.NewReplacer(pairs...)
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

// overwrite overwrites the needles in buf.
func (n *needles) overwrite(buf []byte) {
	text := unsafe.String(unsafe.SliceData(buf), len(buf)) // is read before anything is written
	if slices.ContainsFunc(n.texts, func(needle string) bool { return strings.Contains(text, needle) }) {
		copy(buf, n.masks.Replace(text))
	}
}

// begun is the length of the longest end of buf that a needle begins with. The last hold bytes must
// not be passed on before what follows them is known. Less than that is: the other side may wait
// for all of a message before it says more, and what is told of the secret is at most a quarter.
func (n *needles) begun(buf []byte) (keep, hold int) {
	text := unsafe.String(unsafe.SliceData(buf), len(buf))
	for _, needle := range n.texts {
		tail := text[max(0, len(text)-len(needle)+1):]
		for !strings.HasPrefix(needle, tail) {
			i := strings.IndexByte(tail[1:], needle[0])
			if i < 0 {
				tail = ""
				break
			}
			tail = tail[1+i:]
		}
		keep = max(keep, len(tail))
		if len(tail) > min(tailMin-1, len(needle)/4) {
			hold = max(hold, len(tail))
		}
	}
	return keep, hold
}

// end overwrites the needles in the last part of a body, and one that is cut off there.
func (n *needles) end(buf []byte) {
	n.overwrite(buf)
	if keep, _ := n.begun(buf); keep >= tailMin {
		copy(buf[len(buf)-keep:], strings.Repeat(string(n.fill), keep))
	}
}

// text is s without needles.
func (n *needles) text(s string) string { return n.masks.Replace(s) }

// Redact is text without the secrets of the set, for logs: those that are cut off too.
func (s *Set) Redact(text string) string {
	if s == nil || len(text) < tailMin {
		return text
	}
	for _, all := range s.hosts {
		for _, c := range all {
			if p := c.ready.Load(); p != nil && p.needles != nil {
				text = p.needles.logged(text)
			}
		}
	}
	return text
}

func (n *needles) logged(text string) string {
	for _, needle := range n.texts {
		start := needle[:min(len(needle), codedMin)]
		for {
			before, after, found := strings.Cut(text, start)
			if !found {
				break
			}
			rest := needle[len(start):]
			for len(after) > 0 && len(rest) > 0 && after[0] == rest[0] {
				after, rest = after[1:], rest[1:]
			}
			text = before + string(n.fill) + after
		}
	}
	return text
}

// inName says whether a needle is in the name of a header, whose case has been changed.
func (n *needles) inName(name string) bool {
	if len(name) < len(n.texts[0]) { // the shortest
		return false
	}
	name = strings.ToLower(name)
	return slices.ContainsFunc(n.lower, func(text string) bool { return strings.Contains(name, text) })
}
