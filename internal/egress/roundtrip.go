package egress

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"

	"forage"
	"forage/internal/audit"
	"forage/internal/egress/gitproto"
	"forage/internal/egress/meter"
	"forage/internal/policy"
)

// secretError says that what has to be put into a request could not be had.
// The audit log has the reason.
type secretError struct{ host string }

func (e *secretError) Error() string { return "the credential for " + e.host + " is not available" }

// roundTrip sends a request that was allowed, with what has to be put into it.
func (h *httpSide) roundTrip(r *http.Request) (*http.Response, error) {
	j := exchangeOf(r)
	if err := h.e.config.Account.Prepare(j.to.Host, r); err != nil {
		return nil, j.s.f.limited(j.event, err)
	}
	d := j.permit.now()
	if d.Push != nil && r.Body != nil {
		if r.Header.Get("Content-Encoding") != "" {
			return nil, j.s.f.deny(j.permit.event, policy.Decision{Rule: d.Rule, Reason: "a push that is encoded can't be read"})
		}
		guarded, err := gitproto.Guard(r.Body, *d.Push)
		if err != nil {
			return nil, err
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{guarded, r.Body}
	}
	answer, err := h.credentials(r, j)
	if answer != nil && err == nil {
		answer.Request = r
		return answer, nil
	}
	if err != nil {
		return nil, err
	}
	r = r.WithContext(httptrace.WithClientTrace(j.ctx, j.trace(httptrace.ContextClientTrace(r.Context()))))
	if r.Body != nil {
		j.sent = newFreeBody(r.Body, r.ContentLength)
		r.Body = j.sent
	}
	res, err := h.out.Load().RoundTrip(r)
	if err != nil {
		// A budget must not be gone round by not waiting for an answer.
		if sent := j.permit.counts.Out.Load(); r.Method == http.MethodPost && r.Context().Err() != nil && sent > 0 && meter.Metered(j.to.Host) {
			j.spent(meter.Unanswered(j.to.Host, sent))
		}
		return nil, err
	}
	return res, nil
}

// credentials puts the secret into a request that goes where others can't read it.
// A request that is answered in place of the server has an answer.
func (h *httpSide) credentials(r *http.Request, j *exchange) (answer *http.Response, err error) {
	set := j.permit.secrets
	found := set.For(j.to.Dest(), j.to.Port)
	strips := j.scheme != "https" && !isOwnService(j.to)
	if found == nil && (strips || !j.permit.now().Port) {
		found, strips = set.Near(j.to.Dest()), true
	}
	if found == nil && j.to.Host == "" { // an address, of which a name is asked
		found, strips = set.Near(j.host.Dest()), true
	}
	switch {
	case found == nil:
		return nil, nil
	case strips:
		j.applied = found.Strip(r)
	default:
		j.applied, answer, err = found.Apply(r.Context(), r)
	}
	event := audit.Event{Kind: audit.Secret, Host: j.to.Dest(), Port: j.to.Port, Method: r.Method, Path: j.event.Path, Secret: found.Secret}
	if err != nil {
		denied := j.s.f.deny(event, policy.Decision{Rule: "secret-unavailable", Reason: withHint(err)})
		if !isRecorded(denied) {
			return nil, denied
		}
		return nil, &secretError{j.to.Dest()}
	}
	if answer != nil && answer.StatusCode == http.StatusForbidden {
		event.Verdict, event.Rule = policy.Deny.String(), "secret-refused"
		event.Reason = "the secret may not be used for this: answered with 403, and not sent on"
		return answer, h.e.record(event)
	}
	if j.applied != nil && j.applied.Foreign != "" {
		event.Verdict, event.Rule, event.Reason = policy.Deny.String(), "foreign-credential", j.applied.Foreign
		event.Secret = j.applied.Secret
		if err := h.e.record(event); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// withHint is what went wrong, and what to do: only the audit log has it.
func withHint(err error) string {
	if hint := forage.Hint(err); hint != "" && !strings.Contains(err.Error(), hint) {
		return err.Error() + ": " + hint
	}
	return err.Error()
}

// trace notes where a request goes, and keeps what the server says before its
// answer, which is for next, from telling a secret. It takes the place of next: two traces in
// one context cost more than all else that is done about a request here.
func (j *exchange) trace(next *httptrace.ClientTrace) *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			conn, ok := keptOf(info.Conn)
			if !ok {
				return
			}
			if j.sent != nil {
				j.sent.gone = conn.gone
			}
			if j.permit.leadsTo(conn.addr, true) != nil { // it was there already, and the policy has changed since
				j.s.f.kill()
			}
		},
		Got1xxResponse: func(status int, header textproto.MIMEHeader) error {
			if status == http.StatusContinue && j.body != nil && j.body.in.Header.Get("Expect") != "" {
				return nil // net/http says so when the body is read, and a second one is more than the client has asked for
			}
			delete(header, "Alt-Svc")
			if j.applied != nil {
				clear(header)
			}
			return next.Got1xxResponse(status, header)
		},
	}
}

// answered changes what a server answers before it is passed on.
func (h *httpSide) answered(res *http.Response) error {
	j := exchangeOf(res.Request)
	res.Header.Del("Alt-Svc") // another way to the server, that isn't judged
	if len(res.Trailer) > 0 && !j.s.http2 {
		res.Header.Del("Content-Length") // HTTP/2 has both, HTTP/1 either
	}
	body := res.Body
	if j.applied != nil {
		if err := j.applied.Response(res); err != nil {
			return fmt.Errorf("an answer that may tell the secret: %w", err)
		}
	}
	j.writer.left = res.ContentLength
	if res.StatusCode == http.StatusSwitchingProtocols {
		return j.switched(res, body)
	}
	if meter.Metered(j.to.Host) {
		meter.Watch(res, func(u meter.Usage) { j.spent(u) })
	}
	return nil
}

// switched lets a connection leave HTTP when both sides have agreed on it.
func (j *exchange) switched(res *http.Response, body io.ReadCloser) error {
	if !isWebSocket(res.Header) || !isWebSocket(res.Request.Header) || j.s.http2 {
		return errors.New("the server switched to a protocol that was not asked for")
	}
	if w, ok := body.(io.Writer); ok {
		res.Body = struct {
			io.ReadCloser
			io.Writer
		}{res.Body, w}
	}
	j.upgraded = true
	j.s.left.Store(j.permit.counts)
	j.s.gate.Open()
	return nil
}

// spent counts what a language model took.
func (j *exchange) spent(u meter.Usage) {
	e := j.s.f.e
	cost := e.config.Account.Spend(u)
	j.mu.Lock()
	j.event.Model, j.event.TokensIn, j.event.TokensOut, j.event.Cost = u.Model, u.Tokens()-u.Out, u.Out, cost
	j.mu.Unlock()
	j.permit.use.Spent(u.Tokens(), cost)
}
