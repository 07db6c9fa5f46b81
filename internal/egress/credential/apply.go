package credential

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"forage"
	"forage/internal/policy"
)

// Apply makes r, which is about to be sent on, one that carries the secret: credentials that
// it brought are taken out or replaced. r, its Header and its URL are changed: they must not be
// shared with what the agent's connection is served by. The error is the source's, or says
// that a secret must not be sent this way; it is for the user, never for the agent.
// For a request that is answered in place of the server (a login's token endpoint, a signature
// that can't be made), answer is not nil.
func (c *Credential) Apply(ctx context.Context, r *http.Request) (applied *Applied, answer *http.Response, err error) {
	if err := c.check(r); err != nil {
		return nil, nil, fmt.Errorf("the secret %q: %w", c.Secret, err)
	}
	if a, ok := c.source.(Answerer); ok {
		if answer, ok := a.Answer(r); ok {
			return &Applied{}, answer, nil
		}
	}
	applied = &Applied{}
	if !c.wants(r) {
		applied.Foreign = c.strip(r)
		if p := c.ready.Load(); p != nil { // a server may tell what it has kept of an earlier request
			applied.needles = p.needles
			tame(r, false)
		}
		return applied, nil, nil
	}
	p, err := c.prepare(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("the secret %q: %w", c.Secret, err)
	}
	applied.needles = p.needles
	if p.signer != nil {
		return c.resign(r, p.signer, applied)
	}
	applied.Foreign = c.strip(r)
	if c.insert(r, p) {
		applied.Secret = c.Secret
	}
	tame(r, false)
	return applied, nil, nil
}

// resign makes a request that is signed inside one that is signed with the key of the host.
func (c *Credential) resign(r *http.Request, s *signer, applied *Applied) (*Applied, *http.Response, error) {
	now := c.now()
	if err := s.expired(now); err != nil {
		return nil, nil, fmt.Errorf("the secret %q: %w", c.Secret, err)
	}
	by := c.foreignSigner(r)
	sc, refused := readScope(r)
	applied.Foreign = c.strip(r)
	if by != "" {
		applied.Foreign = by
	}
	tame(r, true)
	if refused == "" {
		refused = s.sign(r, sc, now)
	}
	if refused != "" {
		return applied, refusal(r, refused), nil
	}
	applied.Secret = c.Secret
	return applied, nil, nil
}

// check says whether a secret may be put into r at all.
func (c *Credential) check(r *http.Request) error {
	defaultPort := uint16(443)
	if r.URL.Scheme != "https" {
		defaultPort = 80
	}
	to, err := policy.ParseAuthority(r.URL.Host, defaultPort)
	if err != nil {
		return fmt.Errorf("the request is for no host: %w", err)
	}
	if at := (dest{to.Dest(), to.Port}); !c.covers(at) {
		return fmt.Errorf("it is not bound to %s", to.Authority())
	}
	if r.Host != "" && r.Host != r.URL.Host {
		if said, err := policy.ParseAuthority(r.Host, defaultPort); err != nil || said != to {
			return errors.New("the request's Host is another than where it goes")
		}
	}
	if r.URL.Scheme == "https" || r.URL.Scheme == "http" && c.mayBeClear(to) {
		return nil
	}
	return errors.New("it is sent over TLS only")
}

func (c *Credential) covers(to dest) bool {
	if !c.wild {
		return to == c.at
	}
	rest, ok := strings.CutSuffix(to.host, c.at.host)
	return ok && to.port == c.at.port && strings.HasSuffix(rest, ".")
}

// mayBeClear says whether to is a service of the host itself.
func (c *Credential) mayBeClear(to policy.Request) bool {
	return !c.wild && (to.Host == policy.HostName || to.Host == "" && isLoopback(to.Addr))
}

func isLoopback(addr netip.Addr) bool { return addr.Unmap().IsLoopback() }

// wants says whether the secret has a place in r. Only one that is put where
// its placeholder is has none in some.
func (c *Credential) wants(r *http.Request) bool {
	for _, use := range c.uses {
		if use.Place != forage.PlaceReplace {
			return true
		}
		for name, values := range r.Header {
			for _, value := range values {
				if strings.EqualFold(name, use.Name) && c.shows(value) {
					return true
				}
			}
		}
	}
	return false
}

// shows says whether a header's value has the placeholder in it.
func (c *Credential) shows(value string) bool {
	return c.placeholder != "" && (strings.Contains(value, c.placeholder) || strings.Contains(basicText(value), c.placeholder))
}

// insert puts the secret into r, and says whether there was a place for it.
func (c *Credential) insert(r *http.Request, p *prepared) (done bool) {
	for _, put := range p.puts {
		switch {
		case put.query != "":
			if r.URL.RawQuery != "" {
				r.URL.RawQuery += "&"
			}
			r.URL.RawQuery += put.query
			done = true
		case put.replace:
			for name, values := range r.Header {
				if !strings.EqualFold(name, put.header) {
					continue
				}
				for i := range values { // strip has left only those that have it
					values[i] = c.replaced(values[i], p.value)
					done = true
				}
			}
		default:
			r.Header[put.header] = put.value
			done = true
		}
	}
	return done
}

// replaced is a header's value with the secret in place of the placeholder.
func (c *Credential) replaced(value, secret string) string {
	if text := basicText(value); strings.Contains(text, c.placeholder) {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(text, c.placeholder, secret)))
	}
	return strings.ReplaceAll(value, c.placeholder, secret)
}

// basicText is "user:password" of a header's value (RFC 7617); "" if it is none.
func basicText(value string) string {
	scheme, rest, ok := strings.Cut(value, " ")
	if !ok || !strings.EqualFold(scheme, "basic") {
		return ""
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest))
	if err != nil {
		return ""
	}
	return string(text)
}

// tame takes from r what would let an answer show the secret in a form that can't
// be looked through: compressed, or in pieces. A signed request does not carry the secret
// itself, and may ask for pieces.
func tame(r *http.Request, signed bool) {
	r.Header["Accept-Encoding"] = identity
	for _, name := range [...]string{"Grpc-Accept-Encoding", "Connect-Accept-Encoding"} {
		delete(r.Header, name)
	}
	if !signed {
		delete(r.Header, "Range")
		delete(r.Header, "Request-Range") // as some servers still know it
		delete(r.Header, "If-Range")
	}
}

// identity is shared by all requests and not written to.
var identity = []string{"identity"}

// prepared is what one value of a secret comes to.
type prepared struct {
	value   string
	puts    []put
	signer  *signer // of PlaceSigV4
	hide    []string
	older   [][]string // to hide of the values before, the last first
	needles *needles
}

// olderMax is how many values before the last one are looked for in answers: servers
// tell what they have kept, and take for a while what was rotated.
const olderMax = 2

// put is one place that a secret is written to.
type put struct {
	header  string
	value   []string
	replace bool
	query   string // the whole parameter, encoded
}

// prepare reads the secret, and works out what it comes to if it is not the one that it was.
func (c *Credential) prepare(ctx context.Context) (*prepared, error) {
	secret, err := c.source.Get(ctx)
	if err != nil {
		return nil, err
	}
	value := secret.Reveal()
	last := c.ready.Load()
	if last != nil && value != "" && last.value == value {
		return last, nil
	}
	if value == "" || hasControl(value) {
		return nil, errors.New("its value is empty, or has control characters in it, which no request can carry")
	}
	p := &prepared{value: value, hide: []string{value}}
	for _, use := range c.uses {
		switch use.Place {
		case forage.PlaceSigV4:
			if p.signer, err = newSigner(value); err != nil {
				return nil, err
			}
			p.hide = p.signer.hide()
		case forage.PlaceQuery:
			p.puts = append(p.puts, put{query: url.QueryEscape(use.Name) + "=" + url.QueryEscape(value)})
		case forage.PlaceReplace:
			p.puts = append(p.puts, put{header: use.Name, replace: true})
		default:
			text := headerValue(use, value)
			p.hide = append(p.hide, text)
			p.puts = append(p.puts, put{header: http.CanonicalHeaderKey(headerOf(use)), value: []string{text}})
		}
	}
	p.hideAfter(last)
	for !c.ready.CompareAndSwap(last, p) { // another request has brought another value meanwhile
		last = c.ready.Load()
		p.hideAfter(last)
	}
	return p, nil
}

// hideAfter makes p hide its own value, and the last ones before it.
func (p *prepared) hideAfter(last *prepared) {
	p.older = nil
	if last != nil {
		for _, hide := range append([][]string{last.hide}, last.older...) {
			if !slices.Equal(hide, p.hide) && len(p.older) < olderMax {
				p.older = append(p.older, hide)
			}
		}
	}
	p.needles = newNeedles(slices.Concat(append([][]string{p.hide}, p.older...)...))
}

// Remember makes a set that takes the place of another go on hiding the values that were used
// with that.
func (s *Set) Remember(before *Set) {
	if s == nil || before == nil || s == before {
		return
	}
	for name, all := range s.hosts {
		for _, c := range all {
			i := slices.IndexFunc(before.hosts[name], func(old *Credential) bool { return old.at == c.at && old != c })
			if i < 0 {
				continue
			}
			if p := before.hosts[name][i].ready.Load(); p != nil { // without its value, which is not to be put into anything
				c.ready.CompareAndSwap(nil, &prepared{hide: p.hide, older: p.older, needles: p.needles})
			}
		}
	}
}

func headerValue(use forage.SecretUse, value string) string {
	switch {
	case use.Place == forage.PlaceBearer:
		return "Bearer " + value
	case use.Place == forage.PlaceBasic:
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(use.User+":"+value))
	case use.Format != "":
		return strings.Replace(use.Format, "{}", value, 1)
	}
	return value
}

// refusal answers a request that can't be sent on, for a reason that the agent may know.
func refusal(r *http.Request, reason string) *http.Response {
	text := "forage: " + reason + "\n"
	return &http.Response{
		Status: "403 Forbidden", StatusCode: http.StatusForbidden, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"text/plain; charset=utf-8"}},
		Body:          body(text),
		ContentLength: int64(len(text)),
		Request:       r,
	}
}
