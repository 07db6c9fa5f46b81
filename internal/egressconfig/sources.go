package egressconfig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"forage"
	"forage/internal/secrets"
	"forage/internal/secrets/login"
)

// Sources are the sources of bindings, by their secrets' names. env is what EnvWanted names of the
// caller's environment; transport is how the host renews logins (Engine.HostTransport). fail, if
// set, is told what is wrong with a login where the error goes nowhere else. life is that of the
// sandbox or client: nothing is being read when it has ended, but renewals of logins, which have to
// be written down. Nothing is read yet.
func Sources(life context.Context, bindings []forage.Binding, env map[string]string, transport func() http.RoundTripper, fail func(secret string, err error)) (map[string]secrets.Source, error) {
	sources := make(map[string]secrets.Source, len(bindings))
	for _, b := range bindings {
		source, err := secrets.Source(nil), error(nil)
		if b.Source.Login == nil {
			source, err = secrets.Open(life, b.Source, env)
		} else {
			source, err = openLogin(b, transport, fail)
		}
		if err != nil {
			return nil, fmt.Errorf("the secret %s: %w", b.Secret, err)
		}
		sources[b.Secret] = source
	}
	return sources, nil
}

// EnvWanted are the variables of the caller's environment that the sources of bindings need.
func EnvWanted(bindings []forage.Binding) []string {
	var names []string
	for _, b := range bindings {
		names = append(names, secrets.Wanted(b.Source)...)
	}
	return names
}

// CheckSecrets says whether bindings can be enforced together, without their values.
func CheckSecrets(bindings []forage.Binding) error {
	_, err := compileBindings(bindings)
	return err
}

// noSource stands for a source where none is asked.
type noSource struct{}

func (noSource) Get(context.Context) (secrets.Secret, error) {
	return secrets.Secret{}, errors.New("it is not open")
}

func openLogin(b forage.Binding, transport func() http.RoundTripper, fail func(string, error)) (secrets.Source, error) {
	own, err := login.Open(*b.Source.Login, transport, time.Now)
	if err != nil {
		return nil, err
	}
	return &boundLogin{Login: own, binding: b, fail: fail}, nil
}

// boundLogin is a login that answers its sandbox in place of the token endpoint.
type boundLogin struct {
	*login.Login
	binding forage.Binding
	fail    func(string, error)
}

// Answer implements credential.Answerer.
func (l *boundLogin) Answer(r *http.Request) (*http.Response, bool) {
	host := strings.TrimSuffix(strings.ToLower(r.URL.Hostname()), ".") // where it goes, whatever it says
	answer, err := l.Login.Answer(r.Context(), host, r, l.binding.Placeholder, l.binding.Refresh)
	if err != nil && l.fail != nil {
		l.fail(l.binding.Secret, err)
	}
	if answer == nil && err != nil {
		return &http.Response{
			StatusCode: http.StatusBadGateway, Status: "502 Bad Gateway", Body: http.NoBody, Header: http.Header{},
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		}, true
	}
	return answer, answer != nil
}
