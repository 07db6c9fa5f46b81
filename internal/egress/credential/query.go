package credential

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// stripQuery takes the credentials out of r's query, whatever way they are spelled,
// and returns the name of one that was not ours.
func (c *Credential) stripQuery(r *http.Request) (foreign string) {
	query := r.URL.RawQuery
	if query == "" {
		return ""
	}
	kept := make([]byte, 0, len(query))
	found := false
	for start := 0; start <= len(query); {
		end := start
		for end < len(query) && query[end] != '&' && query[end] != ';' { // ";" separates too for some servers
			end++
		}
		param := query[start:end]
		name, value, _ := strings.Cut(param, "=")
		if known, ok := c.takesParam(name); ok {
			found = true
			value = unescape(value)
			if !c.shows(value) && !c.showsPart(value) && !(c.signs() && strings.HasPrefix(known, "x-amz-")) {
				foreign = first(foreign, known)
			}
		} else {
			if len(kept) > 0 {
				kept = append(kept, query[start-1])
			}
			kept = append(kept, param...)
		}
		start = end + 1
	}
	if found {
		r.URL.RawQuery = string(kept)
	}
	return foreign
}

// takesParam says whether a parameter's name is that of a credential, and how it is usually
// written.
func (c *Credential) takesParam(name string) (known string, ok bool) {
	var buf [longestName]byte
	name = unescape(name)
	key := squeezed(&buf, name)
	own := slices.Contains(c.params, string(key))
	if !own && (!isCredentialParam(key) || string(key) == "key" && keyIsPlain(c.at.host)) {
		return "", false
	}
	end := strings.IndexFunc(name, func(r rune) bool { return r == '[' || r < ' ' })
	if end < 0 {
		end = len(name)
	}
	return strings.ToLower(name[:end]), true
}

// unescape decodes what can be decoded of a part of a query, as a lenient server does.
func unescape(text string) string {
	if strings.IndexByte(text, '%') < 0 && strings.IndexByte(text, '+') < 0 {
		return text
	}
	plain := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '+' {
			c = ' '
		} else if c == '%' && i+2 < len(text) {
			if escaped, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				c = byte(escaped)
				i += 2
			}
		}
		plain = append(plain, c)
	}
	return string(plain)
}
