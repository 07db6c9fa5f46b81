package login

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"forage/internal/policy"
)

// maxAsked is how much of a request to the token endpoint is read, in bytes.
const maxAsked = 64 << 10

// Answer answers what a sandbox asks of the servers that log in, in place of
// them; nil is a request that is none of that, and may go on. host is the name that
// was judged. A sandbox gets placeholders (access and refresh) for its placeholder, and
// nothing for anything else. The error is the host's, for the user: the
// answer doesn't say it.
//
// Placeholders never end, so a sandbox that asks has been refused with a
// token that looked good here: the login is renewed then, though not at the
// sandbox's pleasure.
func (l *Login) Answer(ctx context.Context, host string, r *http.Request, access, refresh string) (*http.Response, error) {
	asked, ok := judged(r)
	if !l.answers(host, asked) {
		if !ok || slices.ContainsFunc(asked, func(path string) bool { return l.form.refuses(host, path) }) {
			return reply(r, http.StatusForbidden, oauthError("access_denied",
				"forage: this is not among what the sandbox may use the login for")), nil
		}
		return nil, nil
	}
	if r.Method != http.MethodPost || !renews(r, refresh) {
		return reply(r, http.StatusForbidden, oauthError("access_denied",
			"forage: a login of the host is bound to this sandbox; logging in to another account, or out of this one, is refused inside")), nil
	}
	// Makes sure that the login works, and renews one that has not been renewed just now.
	have, err := l.Get(ctx)
	if err != nil {
		return reply(r, http.StatusServiceUnavailable, oauthError("temporarily_unavailable",
			"forage: the login of the host is not available")), err
	}
	l.mu.Lock()
	again := l.now().Sub(l.renewed) >= forcedPause
	if again {
		l.renewed = l.now() // whether it works or not
	}
	l.mu.Unlock()
	if again {
		_, _ = l.Renew(ctx, have) // the one that we have is good as far as we know
	}

	_, raw, err := l.file.load()
	if err != nil {
		return reply(r, http.StatusServiceUnavailable, oauthError("temporarily_unavailable",
			"forage: the login of the host is not available")), l.explain(err)
	}
	answer, err := l.form.answer(raw, access, refresh, l.now())
	if err != nil {
		return nil, err
	}
	return reply(r, http.StatusOK, answer), nil
}

// answers says whether a request is about logging in: everything at a server that
// does nothing else, and what says so at others.
func (l *Login) answers(host string, asked []string) bool {
	if !slices.Contains(l.form.hosts, host) {
		return false
	}
	if strings.HasPrefix(host, "auth.") {
		return true
	}
	return slices.ContainsFunc(asked, func(path string) bool { return strings.Contains(path, "oauth") })
}

// judged are the ways in which a server may read the path of a request, in lower case, and
// those of the paths that its fields say beside it (X-Original-URL and its kin). ok is false
// where one can't be judged.
func judged(r *http.Request) (asked []string, ok bool) {
	said := []string{r.URL.EscapedPath()}
	for name, values := range r.Header {
		if saysPath(name) {
			for _, value := range values {
				said = append(said, pathOf(value))
			}
		}
	}
	ok = true
	for _, path := range said {
		readings, fine := policy.Readings(path)
		ok = ok && fine
		for _, reading := range append(readings, path) {
			asked = append(asked, strings.ToLower(reading))
		}
	}
	return asked, ok
}

// saysPath says whether servers, or what stands before them, may take a field's value for
// the path of the request.
func saysPath(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "x") && (strings.HasSuffix(name, "url") || strings.HasSuffix(name, "uri") || strings.HasSuffix(name, "path"))
}

// pathOf is the path of a URL, which may be without the rest.
func pathOf(value string) string {
	value, _, _ = strings.Cut(value, "?")
	if _, rest, ok := strings.Cut(value, "://"); ok {
		_, value, _ = strings.Cut(rest, "/")
	}
	return "/" + strings.TrimPrefix(value, "/")
}

// renews says whether r asks for new tokens (RFC 6749 section 6) with the placeholder. Claude
// Code and Codex send JSON, others a form.
func renews(r *http.Request, refresh string) bool {
	if r.Body == nil || r.URL.RawQuery != "" {
		return false
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAsked+1))
	if err != nil || len(body) > maxAsked {
		return false
	}
	kind, token := "", ""
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // "" is none of them
	switch mediaType {
	case "application/json":
		var parsed struct {
			Kind  string `json:"grant_type"`
			Token string `json:"refresh_token"`
		}
		if json.Unmarshal(body, &parsed) != nil {
			return false
		}
		kind, token = parsed.Kind, parsed.Token
	case "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return false
		}
		kind, token = form.Get("grant_type"), form.Get("refresh_token")
	}
	return kind == "refresh_token" && token != "" && subtle.ConstantTimeCompare([]byte(token), []byte(refresh)) == 1
}

// oauthError is an error answer of a token endpoint (RFC 6749 section 5.2).
func oauthError(code, description string) map[string]any {
	return map[string]any{"error": code, "error_description": description}
}

func reply(r *http.Request, status int, body map[string]any) *http.Response {
	content, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings, numbers and maps of them always marshal
	}
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store") // RFC 6749 section 5.1
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(content)), ContentLength: int64(len(content)), Request: r,
	}
}
