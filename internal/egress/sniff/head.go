package sniff

import (
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// maxMethod bounds a method, in bytes.
const maxMethod = 32

// Head is what matters of the head of a request.
type Head struct {
	Method string
	Target string // as sent: "/path", "http://host/path", "host:443", "*"
	Host   string // the Host field; "" if there is none
	// ProxyAuthorization is that field as sent; "" if there is none.
	ProxyAuthorization string
}

// framing says how long the body after a head is.
type framing struct {
	length  int64
	chunked bool
}

// parseHead reads the head of a request, up to and with its empty line, by the
// letter of RFC 9112: lines end in CR LF, nothing is folded, nothing is said twice
// that has to be said once, and the length of the body is given in one way.
func parseHead(text string) (Head, framing, error) {
	line, rest, _ := strings.Cut(text, "\r\n")
	h, version, err := parseRequestLine(line)
	if err != nil {
		return Head{}, framing{}, err
	}
	var fields requestFields
	for {
		line, rest, _ = strings.Cut(rest, "\r\n")
		if line == "" {
			break
		}
		if err := fields.add(line); err != nil {
			return Head{}, framing{}, err
		}
	}
	if rest != "" {
		return Head{}, framing{}, strict("bytes after the head")
	}
	if fields.hosts == 0 && (version == "HTTP/1.1" && h.Method != "CONNECT") {
		return Head{}, framing{}, strict("a request without Host")
	}
	h.Host, h.ProxyAuthorization = fields.host, fields.proxyAuth
	body, err := fields.framing(version)
	if err == nil && h.Method == "CONNECT" && (body.chunked || body.length > 0) {
		err = strict("CONNECT with a body")
	}
	return h, body, err
}

func parseRequestLine(line string) (h Head, version string, err error) {
	parts := strings.Split(line, " ")
	if len(parts) != 3 {
		return Head{}, "", refuse("not-http", "what the client sends is not an HTTP request")
	}
	h, version = Head{Method: parts[0], Target: parts[1]}, parts[2]
	if version != "HTTP/1.1" && version != "HTTP/1.0" {
		return Head{}, "", refuse("not-http", "what the client sends is not an HTTP/1 request")
	}
	return h, version, CheckRequest(h.Method, h.Target)
}

// CheckRequest refuses a method, or a request target (:path in HTTP/2), that two readers could
// understand differently.
func CheckRequest(method, target string) error {
	odd := func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' || r == '\\' }
	switch {
	case !httpguts.ValidHeaderFieldName(method) || len(method) > maxMethod:
		return strict("a malformed method")
	case target == "" || strings.ContainsFunc(target, odd):
		return strict("a malformed request target")
	}
	if _, err := url.ParseRequestURI(target); err != nil && method != "CONNECT" {
		return strict("a malformed request target")
	}
	return nil
}

// requestFields are the fields that say where a request goes and where it ends.
type requestFields struct {
	host       string
	hosts      int
	lengths    []string
	codings    []string
	proxyAuth  string
	proxyAuths int
}

func (f *requestFields) add(line string) error {
	name, value, ok := strings.Cut(line, ":")
	if !ok || !httpguts.ValidHeaderFieldName(name) { // a folded line begins with a space, which is no token
		return strict("a malformed field name")
	}
	value = strings.Trim(value, " \t")
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return strict("a control character in a field")
	}
	switch strings.ToLower(name) {
	case "host":
		if f.hosts++; f.hosts > 1 {
			return strict("more than one Host")
		}
		f.host = value
	case "proxy-authorization":
		if f.proxyAuths++; f.proxyAuths > 1 {
			return strict("more than one Proxy-Authorization")
		}
		f.proxyAuth = value
	case "expect":
		if !strings.EqualFold(value, "100-continue") {
			return strict("an Expect that is not 100-continue")
		}
	case "content-length":
		f.lengths = append(f.lengths, value)
	case "transfer-encoding":
		f.codings = append(f.codings, value)
	}
	return nil
}

func (f *requestFields) framing(version string) (framing, error) {
	switch {
	case len(f.lengths) > 0 && len(f.codings) > 0:
		return framing{}, strict("both Content-Length and Transfer-Encoding")
	case len(f.lengths) > 1:
		return framing{}, strict("more than one Content-Length")
	case len(f.lengths) == 1:
		n, err := strconv.ParseInt(f.lengths[0], 10, 64)
		if err != nil || strings.Trim(f.lengths[0], "0123456789") != "" {
			return framing{}, strict("a malformed Content-Length")
		}
		return framing{length: n}, nil
	case len(f.codings) > 1 || len(f.codings) == 1 && !strings.EqualFold(f.codings[0], "chunked"):
		return framing{}, strict("a Transfer-Encoding that is not chunked alone")
	case len(f.codings) == 1 && version != "HTTP/1.1":
		return framing{}, strict("Transfer-Encoding in HTTP/1.0")
	}
	return framing{chunked: len(f.codings) == 1}, nil
}

func strict(what string) error { return refuse("http-strict", "the HTTP request has %s", what) }
