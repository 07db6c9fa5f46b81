// Package credential puts secrets into requests on their way out, and keeps
// them from coming back. It looks only at requests that policy has allowed and
// that go over verified TLS, or to a service of the host itself that the user has
// named; who calls it sees to that.
package credential

import (
	"context"
	"net/http"

	"forage"
	"forage/internal/secrets"
)

// Set is the credentials of one sandbox. It is immutable and may be shared; the
// nil Set is empty.
type Set struct{}

// Compile makes a Set of bindings. sources holds the source of each binding's
// secret by its name. Errors: two secrets for one host, a use that can't be understood.
func Compile(bindings []forage.Binding, sources map[string]secrets.Source) (*Set, error) {
	return &Set{}, nil
}

// For is what has to be put into requests to a host, which is in its canonical
// form; nil is nothing.
func (s *Set) For(host string, port uint16) *Credential { return nil }

// Gateway is the host and port that the first part of a path on the proxy's own
// address stands for.
func (s *Set) Gateway(name string) (host string, port uint16, ok bool) { return "", 0, false }

// Credential is what is put into the requests to one host.
type Credential struct{ Secret string }

// Apply makes r, which is about to be sent on, one that carries the secret: credentials that
// it brought are taken out or replaced. The error is the source's.
// For a request that is answered in place of the server (a login's token endpoint), answer is not nil.
func (c *Credential) Apply(ctx context.Context, r *http.Request) (applied *Applied, answer *http.Response, err error) {
	return nil, nil, nil
}

// Applied is what became of one request.
type Applied struct {
	Secret string // name of the secret that was put in; "" is none
	// Foreign says which credential of the agent's own was taken out ("header authorization"); "" is none.
	Foreign string
}

// Response takes the secret out of res, as it streams: from its header, its
// body and its trailer. An error means that res must not be passed on.
func (a *Applied) Response(res *http.Response) error { return nil }
