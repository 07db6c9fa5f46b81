package egress

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"forage"
	"forage/internal/audit"
	"forage/internal/browse"
	"forage/internal/egress/sniff"
	"forage/internal/policy"
)

// ServeHTTP serves one request from inside.
func (h *httpSide) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s, ok := r.Context().Value(sessionKey{}).(*session)
	if !ok || s == nil || !h.e.enter() {
		panic(http.ErrAbortHandler)
	}
	defer h.e.running.Done()
	if s.http2 {
		select {
		case h.serving <- struct{}{}:
			defer func() { <-h.serving }()
		default:
			s.failed(fmt.Errorf("%d requests are served or refused already", maxServing))
			s.reset()
			panic(http.ErrAbortHandler)
		}
	} else {
		defer s.asked.Add(-1)
	}
	switch {
	case s.fixed != nil:
		h.serveFixed(w, r, s)
	case r.Method == http.MethodConnect:
		h.serveConnect(w, r, s)
	case r.URL.Scheme == "" && r.URL.Host == "", r.URL.Scheme == "http" && isGateway(r.URL.Host):
		h.serveGateway(w, r, s)
	default:
		h.serveAbsolute(w, r, s)
	}
}

// serveFixed serves a request on a connection to one server: its Host has to be
// the name that the connection was judged by.
func (h *httpSide) serveFixed(w http.ResponseWriter, r *http.Request, s *session) {
	to := *s.fixed
	event := requestEvent(r, to)
	if s.http2 {
		var refused *sniff.Error
		if errors.As(checkStream(r), &refused) {
			h.refuse(w, r, s, s.f.deny(event, policy.Decision{Rule: refused.Rule, Reason: refused.Reason}))
			return
		}
	}
	j := &exchange{s: s, to: to, scheme: "http"}
	port := uint16(httpPort)
	if s.secure {
		j.scheme, port = "https", tlsPort
	}
	said, err := policy.ParseAuthority(r.Host, port)
	said = h.e.router.Complete(said)
	same := err == nil && said == to
	if err == nil && !same && to.Host == "" && said.Host != "" && said.Port == to.Port {
		// An address was allowed; the name that is asked of it has to be as well.
		same = h.e.decide(asked(said, r)).Verdict == policy.Allow
	}
	if !same {
		reason := fmt.Sprintf("the Host of the HTTP request is %.255q", r.Host)
		err := s.f.deny(event, policy.Decision{Rule: ruleHost, Reason: reason})
		if !s.http2 {
			err = s.failed(err)
		}
		h.refuse(w, r, s, err)
		return
	}
	j.host = said
	h.pass(w, r, j)
}

// serveAbsolute serves a request to the explicit proxy.
func (h *httpSide) serveAbsolute(w http.ResponseWriter, r *http.Request, s *session) {
	if r.URL.Scheme != "http" || r.URL.Host == "" {
		h.notProxied(w, r, s)
		return
	}
	target, err := policy.ParseAuthority(r.URL.Host, httpPort)
	if err != nil { // the gate would have refused it
		panic(http.ErrAbortHandler)
	}
	h.pass(w, r, &exchange{s: s, to: target, host: target, scheme: "http"})
}

// notProxied answers what is not a request for a proxy.
func (h *httpSide) notProxied(w http.ResponseWriter, r *http.Request, s *session) {
	const usage = "this is a proxy: it takes CONNECT, and requests for http://HOST/"
	s.f.deny(requestEvent(r, policy.Request{}), policy.Decision{Rule: "not-proxied", Reason: usage}) // refused, recorded or not
	reply(w, r, http.StatusBadRequest, usage)
}

// asked is what a request asks of a destination.
func asked(to policy.Request, r *http.Request) policy.Request {
	to.Method, to.Path, to.Query = r.Method, r.URL.EscapedPath(), r.URL.RawQuery
	return to
}

// requestEvent is what the audit says of a request to a destination. Its query may hold
// secrets and stays out.
func requestEvent(r *http.Request, to policy.Request) audit.Event {
	event := audit.Event{Kind: audit.HTTP, Host: to.Dest(), Port: to.Port}
	if sniff.CheckRequest(r.Method, r.RequestURI) == nil { // else it could be taken for something else in a table
		event.Method, event.Path = r.Method, r.URL.EscapedPath()
	}
	return event
}

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

// serveGateway serves a request for the proxy's own address: the first part of
// its path stands for a host that is reached over TLS, so that a client that can be told a base URL
// needs to trust no certificate of ours.
func (h *httpSide) serveGateway(w http.ResponseWriter, r *http.Request, s *session) {
	if r.URL.Path == browse.Path && r.Method == http.MethodPost && h.e.config.Open != nil && isGateway(r.Host) {
		address, err := io.ReadAll(io.LimitReader(r.Body, browse.MaxURL+1))
		if err == nil {
			err = h.e.config.Open(string(address))
		}
		if err != nil {
			reply(w, r, http.StatusForbidden, err.Error())
			return
		}
		reply(w, r, http.StatusOK, "the user is asked")
		return
	}
	name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	rest = "/" + rest
	host, port, ok := h.e.rules.Load().secrets.Gateway(name)
	if !ok || !isGateway(r.Host) {
		h.notProxied(w, r, s)
		return
	}
	to, addr, err := policy.ParseHost(host)
	path, pathErr := url.PathUnescape(rest)
	if err != nil || pathErr != nil {
		h.notProxied(w, r, s)
		return
	}
	target := h.e.router.Complete(policy.Request{Host: to, Addr: addr, Port: port})
	out := r.Clone(r.Context())
	out.URL.Path, out.URL.RawPath = path, rest
	out.Header.Del("Upgrade-Insecure-Requests")
	scheme := "https"
	if isOwnService(target) && port != tlsPort {
		scheme = "http"
	}
	h.pass(w, out, &exchange{s: s, to: target, host: target, scheme: scheme})
}

// isGateway says whether a Host is the proxy's own address: a page in a browser
// inside, which a name of its own has led here, is not to use it (DNS rebinding).
func isGateway(host string) bool {
	to, err := policy.ParseAuthority(host, httpPort)
	if err != nil || to.Port != forage.ProxyPort {
		return false
	}
	return to.Host == "localhost" || to.Addr == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || to.Addr == netip.IPv6Loopback()
}
