package egress

import (
	"fmt"
	"net/http"
	"strings"

	"forage/internal/egress/sniff"
	"forage/internal/policy"
)

// ruleHost is the rule against requests that are for another place than the one that was judged.
const ruleHost = "host-mismatch"

// checkHead refuses a head of HTTP/1 that names no place or two. What each
// request may reach is judged when it is served.
func (s *session) checkHead(h sniff.Head) (err error) {
	defer func() {
		if err == nil {
			s.asked.Add(1)
		}
	}()
	if s.fixed != nil {
		return checkServerHead(h)
	}
	if s.f.check != nil {
		if err := s.f.check(h); err != nil {
			return err
		}
	}
	authority, port := h.Target, uint16(0)
	if h.Method != http.MethodConnect {
		var absolute bool
		if authority, absolute = cutScheme(h.Target); !absolute {
			return nil // answered when it is served
		}
		port = httpPort
	}
	target, err := policy.ParseAuthority(authority, port)
	if err != nil {
		return &sniff.Error{Rule: policy.RuleMalformed, Reason: "the HTTP request names no host that can be judged: " + err.Error()}
	}
	if h.Host == "" {
		return nil
	}
	if said, err := policy.ParseAuthority(h.Host, target.Port); err != nil || said != target {
		return &sniff.Error{Rule: ruleHost, Reason: fmt.Sprintf("the HTTP request is for %.255q, its Host is %.255q", authority, h.Host)}
	}
	return nil
}

// checkServerHead checks a head that is meant for a server, not for a proxy.
func checkServerHead(h sniff.Head) error {
	if h.Method == http.MethodConnect || h.Target[0] != '/' && (h.Target != "*" || h.Method != http.MethodOptions) {
		return &sniff.Error{Rule: "http-strict", Reason: "the HTTP request is one for a proxy"}
	}
	if _, err := policy.ParseAuthority(h.Host, httpPort); err != nil {
		return &sniff.Error{Rule: ruleHost, Reason: "the HTTP request names no host in Host: " + err.Error()}
	}
	return nil
}

// checkStream is checkServerHead for a request of HTTP/2, whose framing the
// server has checked (RFC 9113, 8.3).
func checkStream(r *http.Request) error {
	if err := sniff.CheckRequest(r.Method, r.RequestURI); err != nil {
		return err
	}
	if r.Method == http.MethodConnect || r.RequestURI[0] != '/' && (r.RequestURI != "*" || r.Method != http.MethodOptions) {
		return &sniff.Error{Rule: "http-strict", Reason: "the HTTP request is one for a proxy"}
	}
	if lengths := r.Header["Content-Length"]; len(lengths) > 1 || len(lengths) == 1 && strings.Trim(lengths[0], "0123456789") != "" {
		return &sniff.Error{Rule: "http-strict", Reason: "the HTTP request has more than one Content-Length, or a malformed one"}
	}
	for _, host := range r.Header["Host"] {
		if host != r.Host {
			return &sniff.Error{Rule: ruleHost, Reason: fmt.Sprintf("the HTTP request is for %.255q, its Host is %.255q", r.Host, host)}
		}
	}
	return nil
}

// cutScheme returns the authority of an absolute http URL, without user information.
func cutScheme(target string) (authority string, ok bool) {
	if len(target) < 7 || !strings.EqualFold(target[:7], "http://") {
		return "", false
	}
	authority = target[7:]
	if end := strings.IndexAny(authority, "/?"); end >= 0 {
		authority = authority[:end]
	}
	return authority[strings.LastIndexByte(authority, '@')+1:], true
}
