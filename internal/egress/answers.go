package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"forage/internal/egress/credential"
	"forage/internal/egress/gitproto"
	"forage/internal/egress/meter"
	"forage/internal/policy"
)

// failed answers a request that could not be forwarded.
func (h *httpSide) failed(w http.ResponseWriter, r *http.Request, err error) {
	j := exchangeOf(r)
	if j.s.f.ctx.Err() != nil {
		err = errEnded
	}
	if counted, ok := w.(*countedWriter); ok {
		counted.failure = err
	}
	if j.upgraded {
		panic(http.ErrAbortHandler)
	}
	var refusal *gitproto.Refusal
	if errors.As(err, &refusal) {
		h.refusePush(w, j, refusal)
		return
	}
	h.refuse(w, r, j.s, err)
}

// refusePush answers a push with what git shows its user.
func (h *httpSide) refusePush(w http.ResponseWriter, j *exchange, refusal *gitproto.Refusal) {
	err := j.s.f.deny(j.permit.event, policy.Decision{Rule: j.permit.now().Rule, Reason: refusal.Error()})
	if !isRecorded(err) {
		panic(http.ErrAbortHandler)
	}
	if j.body != nil {
		io.Copy(io.Discard, io.LimitReader(j.body, maxDrained)) // a client that still sends doesn't read, or takes a stream's early end for an error
	}
	contentType, body := refusal.Report()
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	w.Write(body)
}

// maxDrained bounds what is read of a push after it was refused.
const maxDrained = 256 << 20

// refuse ends a request with the error that it met: by a reset where the
// client knows of no proxy, else by an answer.
func (h *httpSide) refuse(w http.ResponseWriter, r *http.Request, s *session, err error) {
	var limit *meter.Limited
	if errors.As(err, &limit) {
		if after := limit.Header(); after != "" {
			w.Header().Set("Retry-After", after)
		}
	} else if !s.answers() {
		s.reset()
		panic(http.ErrAbortHandler)
	}
	status, text := h.e.explain(err)
	if status == http.StatusForbidden {
		told := reasonPhrase(text)
		s.told.Store(&told)
	}
	reply(w, r, status, text)
}

// forbidden is how the HTTP server ends the status line of a refusal.
const forbidden = " 403 Forbidden"

// reasonPhrase is a refusal's text in the place of "Forbidden" (RFC 9112, 4). Clients that throw
// the body away show it: pip and Go of a refused CONNECT, npm of everything.
func reasonPhrase(text string) string {
	plain := func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}
	return fmt.Sprintf("%s - forage: %.1000s", forbidden, strings.Map(plain, text))
}

// explain tells a client why there is no answer, without what the host knows
// of its own network: the audit log has that.
func (e *Engine) explain(err error) (status int, text string) {
	var denied *deniedError
	var limit *meter.Limited
	var secret *secretError
	var encoded *credential.EncodedError
	var certificate *tls.CertificateVerificationError
	var lookup *net.DNSError
	var network net.Error
	switch {
	case errors.As(err, &denied):
		return http.StatusForbidden, fmt.Sprintf("denied (%s): %s%s", denied.Rule, denied.Reason, e.wayOut(denied.way))
	case errors.As(err, &limit) && limit.Rule == "not-metered": // which makes Codex go on without WebSockets at once
		return http.StatusUpgradeRequired, fmt.Sprintf("denied (%s): %s", limit.Rule, limit.Reason)
	case errors.As(err, &limit):
		return http.StatusTooManyRequests, fmt.Sprintf("denied (%s): %s", limit.Rule, limit.Reason)
	case errors.As(err, &secret):
		return http.StatusBadGateway, secret.Error()
	case errors.As(err, &certificate):
		return http.StatusBadGateway, "the server's certificate can't be verified"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return http.StatusGatewayTimeout, "the server does not answer in time"
	case errors.As(err, &encoded):
		return http.StatusBadGateway, encoded.Error()
	case errors.As(err, &lookup):
		return http.StatusBadGateway, "the server's name can't be looked up"
	case errors.Is(err, syscall.ECONNREFUSED):
		return http.StatusBadGateway, "the server refuses the connection"
	}
	return http.StatusBadGateway, "the server can't be reached, or does not answer as it should"
}

// reply answers in place of a server, and ends a connection of HTTP/1.
func reply(w http.ResponseWriter, r *http.Request, status int, text string) {
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintf(w, "forage: %s\n", text)
}
