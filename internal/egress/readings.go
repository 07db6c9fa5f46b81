package egress

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"forage/internal/egress/credential"
	"forage/internal/policy"
)

// maxReadings bounds the ways in which one request is judged beside what it says first.
const maxReadings = 16

// Fields by which servers, and what stands before them, are told another method, path or host
// than the request's own; squeezed, since many take "_" for "-".
var (
	methodFields = []string{"xhttpmethodoverride", "xmethodoverride", "xhttpmethod"}
	methodParams = []string{"_method", "$httpmethod", "x-http-method-override", "x-method-override", "x-http-method"}
	pathFields   = []string{"xoriginalurl", "xoriginaluri", "xrewriteurl", "xrewriteuri", "xforwardeduri", "xforwardedpath", "xoriginalpath", "xenvoyoriginalpath", "destination"}
	hostFields   = []string{"xforwardedhost", "xforwardedserver", "xoriginalhost", "xhost", "xhostoverride", "xhttphostoverride", "forwarded"}
)

// judgeReading judges another way to read a request, of which itself p says was.
func judgeReading(p policy.Policy, own policy.Request, was policy.Decision, other policy.Request) policy.Decision {
	d := policy.Decide(p, other)
	if d.Verdict == policy.Allow && d.Push != nil && (was.Push == nil || other.Path != own.Path) {
		d = policy.Decision{Rule: d.Rule, Reason: "it is a push only to some"}
	}
	if d.Verdict != policy.Allow {
		d.Reason = fmt.Sprintf("servers may read the request as %.20q %.200q: %s", other.Method, other.Path, d.Reason)
	}
	return d
}

// readings are the ways in which a server may read a request, but for its own. What a form in the
// body says (_method) is not looked at.
func readings(own policy.Request, r *http.Request) (all []policy.Request) {
	methods, paths := []string{own.Method}, []string{own.Path}
	for name, values := range r.Header {
		if !mayOverride(name) {
			continue
		}
		switch key := credential.Squeeze(name); {
		case slices.Contains(methodFields, key):
			methods = append(methods, methodsOf(values)...)
		case slices.Contains(pathFields, key):
			for _, value := range values {
				paths = append(paths, pathOf(value))
			}
		}
	}
	if strings.Contains(strings.ToLower(own.Query), "method") || strings.Contains(own.Query, "%") {
		methods = append(methods, methodsIn(own.Query)...)
	}
	for _, method := range methods {
		for _, path := range paths {
			path, query, _ := strings.Cut(path, "?")
			other := own
			if other.Method, other.Path = method, path; query != "" {
				other.Query = query
			}
			if (method != own.Method || path != own.Path || other.Query != own.Query) && !slices.Contains(all, other) && len(all) <= maxReadings {
				all = append(all, other)
			}
		}
	}
	return all
}

// mayOverride says whether a field can be one of those above; most are not.
func mayOverride(name string) bool { return strings.IndexByte("xfd", name[0]|0x20) >= 0 }

// methodsOf are the methods that a field's values name. Servers take them in any case.
func methodsOf(values []string) (methods []string) {
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			if item = strings.TrimSpace(item); item != "" {
				methods = append(methods, strings.ToUpper(item))
			}
		}
	}
	return methods
}

// methodsIn are the methods that a query names, in each way to part it.
func methodsIn(query string) (methods []string) {
	for param := range strings.FieldsFuncSeq(query, func(c rune) bool { return c == '&' || c == ';' }) {
		name, value, _ := strings.Cut(param, "=")
		if text, err := url.QueryUnescape(name); err == nil && slices.Contains(methodParams, paramName(text)) {
			if text, err := url.QueryUnescape(value); err == nil {
				methods = append(methods, methodsOf([]string{text})...)
			}
		}
	}
	return methods
}

// paramName is a parameter's name as lenient servers take it: without what is in brackets and
// with "_" for what PHP can have in no name.
func paramName(name string) string {
	name = strings.ToLower(strings.TrimLeft(name, " "))
	if at := strings.IndexAny(name, "[\x00"); at > 0 {
		name = name[:at]
	}
	return strings.Map(func(c rune) rune {
		if c == '.' || c == ' ' || c == '[' {
			return '_'
		}
		return c
	}, name)
}

// pathOf is the path and the query of a URL, which may be without the rest.
func pathOf(value string) string {
	value = strings.TrimSpace(value)
	if scheme, rest, ok := strings.Cut(value, "://"); ok && !strings.ContainsAny(scheme, "/?") {
		at := strings.IndexAny(rest, "/?")
		if at < 0 {
			return "/"
		}
		value = rest[at:]
	}
	if !strings.HasPrefix(value, "/") {
		value = "/" + value
	}
	return value
}

// dropHosts takes out the fields that name another host than the one that was judged, and those
// that a server which takes "_" for "-" could take for the request's framing.
func dropHosts(h http.Header) {
	for name := range h {
		if mayOverride(name) && slices.Contains(hostFields, credential.Squeeze(name)) || strings.Contains(name, "_") && isFraming(credential.Squeeze(name)) {
			delete(h, name)
		}
	}
}

func isFraming(squeezed string) bool {
	return squeezed == "transferencoding" || squeezed == "contentlength" || squeezed == "connection"
}
