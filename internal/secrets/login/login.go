// Package login keeps an agent's OAuth login alive on the host, for sandboxes
// that have nothing but placeholders of it. The tokens stay in the agent's own
// file, which the agent goes on using: they are read from there, renewed when
// they end (RFC 6749 section 6) and written back. It does not log in, and does not
// decide which requests get a token.
package login

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"forage"
	"forage/internal/secrets"
)

const (
	// early is how long before its end a token is renewed; both agents do it then too.
	early = 5 * time.Minute
	// pause is how long a renewal that failed is not tried again.
	pause = 5 * time.Second
	// forcedPause is how long after a renewal an agent can't ask for another one.
	forcedPause = 5 * time.Minute
)

// Login is one login. It is a secrets.Source, whose value is an access token that has not ended.
type Login struct {
	form      form
	file      *file
	transport func() http.RoundTripper
	now       func() time.Time
	flight    singleflight.Group // at most one renewal for each token that was refused

	mu      sync.Mutex
	failure failure   // of the last renewal
	renewed time.Time // when the last renewal was done here
}

// failure is a renewal that did not work, and the tokens that it was for.
type failure struct {
	of    tokens
	at    time.Time
	err   error
	final bool // the server will never take these tokens
}

// Open makes a Login. Nothing is read yet: a file that is missing or wrong is
// Get's error. transport is how the host reaches the token endpoint.
func Open(login forage.Login, transport func() http.RoundTripper, now func() time.Time) (*Login, error) {
	form, err := formOf(login.Kind)
	if err != nil {
		return nil, err
	}
	return &Login{form: form, file: &file{path: login.File, parse: form.parse}, transport: transport, now: now}, nil
}

// Get is an access token that is good for a while. Its error says what is
// wrong with the login and what to do, and holds nothing of a token.
func (l *Login) Get(ctx context.Context) (secrets.Secret, error) {
	return l.get(ctx, "")
}

// Renew is Get after a server has refused a token that looked good: the login is
// renewed, unless that has been done since.
func (l *Login) Renew(ctx context.Context, refused secrets.Secret) (secrets.Secret, error) {
	return l.get(ctx, refused.Reveal())
}

// get gives a token other than the refused one.
func (l *Login) get(ctx context.Context, refused string) (secrets.Secret, error) {
	have, err := l.file.read()
	if err != nil {
		return secrets.Secret{}, l.explain(err)
	}
	if have.access != refused && have.good(l.now(), early) {
		return secrets.New(have.access), nil
	}
	// By what was refused: a renewal that takes that token for good is not theirs who had it
	// refused.
	done := l.flight.DoChan(refused, func() (any, error) {
		// The first caller may go away: the others wait for the renewal too.
		return l.renew(context.WithoutCancel(ctx), refused)
	})
	select {
	case <-ctx.Done():
		return secrets.Secret{}, ctx.Err()
	case result := <-done:
		if result.Err == nil {
			return secrets.New(result.Val.(tokens).access), nil
		}
		// A token that still has some minutes is better than none.
		if have.access != refused && have.good(l.now(), 0) {
			return secrets.New(have.access), nil
		}
		return secrets.Secret{}, result.Err
	}
}

// failed is the error of the last renewal of these tokens, as long as trying again is useless.
func (l *Login) failed(of tokens) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.failure
	if last.err != nil && last.of.same(of) && (last.final || l.now().Sub(last.at) < pause) {
		return last.err
	}
	return nil
}

// fail remembers a failed renewal.
func (l *Login) fail(of tokens, err error) error {
	var refused *refusal
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = failure{of: of, at: l.now(), err: err, final: errors.As(err, &refused) && refused.final()}
	return err
}

// explain adds the next step to an error that logging in again mends.
func (l *Login) explain(err error) error {
	return forage.WithHint(err, "log in on the host with `"+l.form.command+"`")
}

// tokens are what a login file says of the login.
type tokens struct {
	access  string
	refresh string    // "" is none: the login ends when the access token does
	expires time.Time // of the access token; zero is unknown
	client  string    // OAuth client that the login belongs to
	scopes  []string
}

// good says whether the access token can be used, for at least margin.
func (t tokens) good(now time.Time, margin time.Duration) bool {
	return t.access != "" && (t.expires.IsZero() || t.expires.After(now.Add(margin)))
}

// same says whether the login was not renewed between two looks at it.
func (t tokens) same(other tokens) bool {
	return t.access == other.access && t.refresh == other.refresh
}
