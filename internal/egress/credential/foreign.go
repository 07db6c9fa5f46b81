package credential

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// longestName bounds the names of headers and parameters that are compared.
const longestName = 64

// squeezed writes name into buf without what servers confuse: letters in lower case,
// and none of "-", "_", "." and " " (CGI makes "_" of "-", PHP makes it of "." and " ").
// It ends at what some servers take for the end: "[", control characters. A longer
// name than buf comes out as nothing.
func squeezed(buf *[longestName]byte, name string) []byte {
	n := 0
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c == '-' || c == '_' || c == '.' || c == ' ':
			continue
		case c == '[' || c < ' ':
			return buf[:n]
		case n == len(buf):
			return nil
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		}
		buf[n] = c
		n++
	}
	return buf[:n]
}

// Squeeze is a header's or a parameter's name without what servers confuse in it: two that come
// out alike are the same to some server.
func Squeeze(name string) string {
	var buf [longestName]byte
	return string(squeezed(&buf, name))
}

// isCredentialHeader says whether services take credentials from a header.
func isCredentialHeader(squeezed []byte) bool {
	switch string(squeezed) {
	case "authorization", "proxyauthorization", "xauthorization", "xforwardedauthorization", "xoriginalauthorization",
		"xapikey", "apikey", "xgoogapikey", "xgoogiamauthorizationtoken", "xgoogiamauthorityselector",
		"privatetoken", "jobtoken", "deploytoken", "xgitlabtoken", "xgithubtoken",
		"xauthtoken", "authtoken", "xaccesstoken", "accesstoken", "xforwardedaccesstoken", "xsessiontoken", "xvaulttoken",
		"xamzsecuritytoken", "cfaccessclientid", "cfaccessclientsecret", "cfaccesstoken",
		"cookie", "cookie2":
		return true
	}
	return false
}

// isCredentialParam says whether services take credentials from a query parameter. Those with
// "$" are Google's, of which one holds whole headers.
func isCredentialParam(squeezed []byte) bool {
	switch string(squeezed) {
	case "accesstoken", "$accesstoken", "oauthtoken", "authtoken", "authorization", "apikey", "xapikey", "xgoogapikey",
		"privatetoken", "jobtoken", "clientsecret", "key", "$key", "$httpheaders",
		"xgoogcredential", "xgoogsignature", "awsaccesskeyid":
		return true
	}
	return strings.HasPrefix(string(squeezed), "xamz") && isPresigning(squeezed)
}

// isPresigning says whether a parameter is one of a presigned URL (AWS Signature Version 4).
func isPresigning(squeezed []byte) bool {
	switch string(squeezed) {
	case "xamzalgorithm", "xamzcredential", "xamzdate", "xamzexpires", "xamzsignedheaders", "xamzsignature", "xamzsecuritytoken":
		return true
	}
	return false
}

// keyIsPlain are hosts at which the query parameter "key" is no credential but
// what a request is about: the key of a cache, of a variable.
func keyIsPlain(host string) bool { return host == "api.github.com" || host == "gitlab.com" }

// Strip takes out every credential that r, which goes to a bound host in the clear, brings
// itself: neither the secret nor another goes that way.
func (c *Credential) Strip(r *http.Request) *Applied { return &Applied{Foreign: c.strip(r)} }

// strip takes every credential out of r, but for the placeholder where it is to be
// replaced, and says which of them was not ours.
func (c *Credential) strip(r *http.Request) (foreign string) {
	var buf [longestName]byte
	for name, values := range r.Header {
		key := squeezed(&buf, name)
		if string(key) == "secwebsocketprotocol" {
			if c.stripProtocols(r.Header, name) {
				foreign = first(foreign, "header sec-websocket-protocol")
			}
			continue
		}
		replaced := c.replaces(name)
		if !replaced && !isCredentialHeader(key) && !c.names(key) {
			continue
		}
		kept := values[:0]
		for _, value := range values {
			switch {
			case replaced && c.isOnlyOurs(key, value):
				kept = append(kept, value)
			case !c.shows(value) && !c.showsPart(value):
				foreign = first(foreign, "header "+strings.ToLower(name))
			}
		}
		if len(kept) > 0 {
			r.Header[name] = kept
		} else {
			delete(r.Header, name)
		}
	}
	if r.URL.User != nil { // the transport would make an Authorization of it
		r.URL.User = nil
		foreign = first(foreign, "user information")
	}
	if name := c.stripQuery(r); name != "" {
		foreign = first(foreign, "query "+name)
	}
	c.stripTrailer(r)
	return foreign
}

// first is the lesser of what has been found, so that the order in which a header is
// looked at does not show.
func first(a, b string) string {
	if a == "" || b < a {
		return b
	}
	return a
}

// names says whether a header is one that the secret is put into.
func (c *Credential) names(squeezed []byte) bool {
	for _, name := range c.named {
		if name == string(squeezed) {
			return true
		}
	}
	return false
}

// replaces says whether a header is one in which the placeholder is replaced. Another
// spelling of its name is another place, though a server may take it for the same.
func (c *Credential) replaces(name string) bool {
	for _, marked := range c.marked {
		if strings.EqualFold(marked, name) {
			return true
		}
	}
	return false
}

// isOnlyOurs says whether a header's value may stay for its placeholder. In Authorization
// there may be nothing beside it, or a second credential could hide behind a comma.
func (c *Credential) isOnlyOurs(name []byte, value string) bool {
	if string(name) != "authorization" {
		return c.shows(value)
	}
	if text := basicText(value); text != "" {
		return strings.Contains(text, c.placeholder)
	}
	scheme, rest, ok := strings.Cut(value, " ")
	return value == c.placeholder || ok && httpguts.ValidHeaderFieldName(scheme) && strings.TrimSpace(rest) == c.placeholder
}

// showsPart says whether a value is made with one of the placeholders that are
// not replaced: one half of a pair, that of a refresh token.
func (c *Credential) showsPart(value string) bool {
	if c.refresh != "" && strings.Contains(value, c.refresh) {
		return true
	}
	id, _, pair := strings.Cut(c.placeholder, ":")
	return c.placeholder != "" && pair && len(id) >= placeholderMin && strings.Contains(value, id)
}

// stripProtocols takes the WebSocket subprotocols away that are credentials, which
// some services accept since browsers can set no header.
func (c *Credential) stripProtocols(h http.Header, name string) (foreign bool) {
	var kept []string
	found := false
	for _, line := range h[name] {
		for item := range strings.SplitSeq(line, ",") {
			item = strings.TrimSpace(item)
			lower := strings.ToLower(item)
			if strings.HasPrefix(lower, "openai-insecure-api-key.") || strings.HasPrefix(lower, "base64url.bearer.authorization.") {
				found = true
				foreign = foreign || !c.shows(item)
				continue
			}
			kept = append(kept, item)
		}
	}
	if found {
		delete(h, name)
		if len(kept) > 0 {
			h["Sec-Websocket-Protocol"] = []string{strings.Join(kept, ", ")}
		}
	}
	return foreign
}

// stripTrailer keeps credentials out of the trailer of a request, whether they are
// announced or not.
func (c *Credential) stripTrailer(r *http.Request) {
	if r.Trailer == nil || r.Body == nil {
		return
	}
	scrub := func() {
		var buf [longestName]byte
		for name := range r.Trailer {
			if key := squeezed(&buf, name); isCredentialHeader(key) || c.names(key) {
				delete(r.Trailer, name)
			}
		}
	}
	scrub()
	r.Body = &trailed{r.Body, scrub}
}

// trailed calls atEnd when a body has been read: its trailer is there then.
type trailed struct {
	io.ReadCloser
	atEnd func()
}

func (t *trailed) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if err != nil {
		t.atEnd()
	}
	return n, err
}

// hasControl says whether text has characters that end a line or worse.
func hasControl(text string) bool { return !httpguts.ValidHeaderFieldValue(text) }

func body(text string) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) }

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
