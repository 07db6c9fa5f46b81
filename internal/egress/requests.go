package egress

import (
	"errors"
	"fmt"
	"net/http"

	"forage/internal/audit"
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
	event := requestEvent(r)
	event.Host, event.Port = to.Dest(), to.Port
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
	said = h.e.pins.request(said)
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
	s.f.deny(requestEvent(r), policy.Decision{Rule: "not-proxied", Reason: usage}) // refused, recorded or not
	reply(w, r, http.StatusBadRequest, usage)
}

// asked is what a request asks of a destination.
func asked(to policy.Request, r *http.Request) policy.Request {
	to.Method, to.Path, to.Query = r.Method, r.URL.EscapedPath(), r.URL.RawQuery
	return to
}

// requestEvent is what the audit says of a request. Its query may hold
// secrets and stays out.
func requestEvent(r *http.Request) audit.Event {
	if sniff.CheckRequest(r.Method, r.RequestURI) != nil { // in a table it could be taken for something else
		return audit.Event{Kind: audit.HTTP}
	}
	return audit.Event{Kind: audit.HTTP, Method: r.Method, Path: r.URL.EscapedPath()}
}
