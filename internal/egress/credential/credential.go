// Package credential puts secrets into requests on their way out, and keeps
// them from coming back. It looks only at requests that policy has allowed and
// that go over verified TLS, or to a service of the host itself that the user has
// named; who calls it sees to that.
//
// A credential that a request brings itself is taken out, whatever it is: an agent
// must not use an allowed service with another account. What a request says in its
// body is not looked at.
package credential

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"forage"
	"forage/internal/secrets"
)

// Set is the credentials of one sandbox. It is immutable and may be shared; the
// nil Set is empty.
type Set struct {
	hosts    map[string][]*Credential // by "host" or "*.suffix": one for each port, that of 443 first
	gateways map[string]dest
}

// dest is a host, canonical or a literal address, and its port.
type dest struct {
	host string
	port uint16
}

// For is what has to be put into requests to a host, which is in its canonical
// form (policy.Request.Dest); nil is nothing. The most specific of the bound hosts counts.
func (s *Set) For(host string, port uint16) *Credential {
	return s.closest(host, func(c *Credential) bool { return c.at.port == port })
}

// Near is For where no secret is bound to the port: what is bound to another port of the
// host. Its credential is for Strip alone. A host that answers at several ports is one service, and
// what must not be sent to it must not go by another door.
func (s *Set) Near(host string) *Credential {
	return s.closest(host, func(*Credential) bool { return true })
}

// closest is what fits of what is bound to a host, or to the suffix that is closest to it.
func (s *Set) closest(host string, fits func(*Credential) bool) *Credential {
	if s == nil {
		return nil
	}
	for name, rest := host, host; ; {
		if i := slices.IndexFunc(s.hosts[name], fits); i >= 0 {
			return s.hosts[name][i]
		}
		_, parent, ok := strings.Cut(rest, ".")
		if !ok {
			return nil
		}
		name, rest = "*."+parent, parent
	}
}

// Gateway is the host and port that the first part of a path on the proxy's own
// address stands for.
func (s *Set) Gateway(name string) (host string, port uint16, ok bool) {
	if s == nil {
		return "", 0, false
	}
	d, ok := s.gateways[name]
	return d.host, d.port, ok
}

// Credential is what is put into the requests to one host.
type Credential struct {
	Secret string // its name

	source      secrets.Source
	placeholder string
	refresh     string // placeholder of a login's refresh token
	at          dest
	wild        bool // at is a suffix
	uses        []forage.SecretUse
	named       []string // headers of uses, squeezed
	marked      []string // names of those in which the placeholder is replaced
	params      []string // query parameters of uses, squeezed
	now         func() time.Time
	ready       atomic.Pointer[prepared] // of the value that was last used
}

// signs says whether the secret is a key to sign requests with. Whose signature one brings is
// found out apart.
func (c *Credential) signs() bool { return c.uses[0].Place == forage.PlaceSigV4 }

// Answerer is a Source that answers some requests in place of the server: those that ask for
// tokens.
type Answerer interface {
	// Answer is asked before anything is done to a request towards a host that the
	// secret is bound to. It may read the body only of a request that it answers.
	Answer(r *http.Request) (*http.Response, bool)
}
