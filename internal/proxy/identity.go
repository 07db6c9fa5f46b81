package proxy

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"forage/internal/config"
)

// Bounds of a token, in bytes: what is shorter can be guessed.
const (
	minToken = 16
	maxToken = 4096
)

// identities are those who may be a client, and how each proves that it is. They don't change.
type identities struct{ list []identity }

type identity struct {
	name        string
	token       [sha256.Size]byte // hash of the token
	hasToken    bool
	certificate string // "URI:...", "DNS:..." or "CN:..."; "" is none
	uid         *int   // that its process has to have
}

// peer is what a connection itself proves of who is at its other end.
type peer struct {
	kind  config.ListenKind
	uid   int      // of ListenUnix
	names []string // in its certificate, which has been verified, of ListenTLS
}

// Reasons why a client is not served. They say nothing of tokens.
var (
	errNoToken      = errors.New("it brought no token")
	errWrongToken   = errors.New("no client has its token")
	errOtherName    = errors.New("its token is not that of the client whose name it gave")
	errOtherUser    = errors.New("its token is that of a client who has to run as another user, or on this machine")
	errCertificate  = errors.New("no client has its certificate's name")
	errCertificates = errors.New("its certificate has the names of more than one client")
	errTokenOverTLS = errors.New("it brought a token where certificates are asked for")
)

// identify says which client it is that sends a request with that Proxy-Authorization.
func (ids *identities) identify(p peer, authorization string) (name string, err error) {
	if p.kind == config.ListenTLS {
		return ids.byCertificate(p, authorization)
	}
	claimed, token, ok := parseAuthorization(authorization)
	if !ok {
		return "", errNoToken
	}
	sum := sha256.Sum256([]byte(token))
	found := -1
	for i := range ids.list { // all of them, so that time tells nothing
		if subtle.ConstantTimeCompare(sum[:], ids.list[i].token[:]) == 1 && ids.list[i].hasToken {
			found = i
		}
	}
	if found < 0 {
		return "", errWrongToken
	}
	client := ids.list[found]
	switch {
	case claimed != "" && claimed != client.name:
		return "", errOtherName
	case client.uid != nil && (p.kind != config.ListenUnix || p.uid != *client.uid):
		return "", errOtherUser
	}
	return client.name, nil
}

func (ids *identities) byCertificate(p peer, authorization string) (name string, err error) {
	if authorization != "" {
		return "", errTokenOverTLS
	}
	for _, client := range ids.list {
		if client.certificate == "" || !slices.Contains(p.names, client.certificate) {
			continue
		}
		if name != "" {
			return "", errCertificates
		}
		name = client.name
	}
	if name == "" {
		return "", errCertificate
	}
	return name, nil
}

// parseAuthorization reads "Bearer TOKEN" (RFC 6750) or "Basic" with a name, which
// may be empty, and the token (RFC 7617).
func parseAuthorization(text string) (name, token string, ok bool) {
	scheme, value, _ := strings.Cut(text, " ")
	switch strings.ToLower(scheme) {
	case "bearer":
		return "", value, value != ""
	case "basic":
		pair, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			return "", "", false
		}
		name, token, ok = strings.Cut(string(pair), ":")
		return name, token, ok && token != ""
	}
	return "", "", false
}

// certificateNames are the names that a client's entry may have for a certificate.
func certificateNames(c *x509.Certificate) []string {
	var names []string
	for _, uri := range c.URIs {
		names = append(names, "URI:"+uri.String())
	}
	for _, name := range c.DNSNames {
		names = append(names, "DNS:"+name)
	}
	if c.Subject.CommonName != "" {
		names = append(names, "CN:"+c.Subject.CommonName)
	}
	return names
}

// add adds a client. token is "" where it has none.
func (ids *identities) add(name string, client config.ProxyClient, token string) error {
	id := identity{name: name, certificate: client.Certificate, uid: client.PeerUID}
	if client.Token != nil {
		if err := checkToken(token); err != nil {
			return fmt.Errorf("proxy.clients.%s.token: %w", name, err)
		}
		id.token, id.hasToken = sha256.Sum256([]byte(token)), true
		for _, other := range ids.list {
			if other.hasToken && other.token == id.token {
				return fmt.Errorf("proxy.clients.%s.token: it is the token of %s too", name, other.name)
			}
		}
	}
	ids.list = append(ids.list, id)
	return nil
}

func checkToken(token string) error {
	if len(token) < minToken || len(token) > maxToken {
		return fmt.Errorf("it has %d characters: expected %d to %d; try: openssl rand -hex 32", len(token), minToken, maxToken)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return errors.New("it has spaces or characters that are not ASCII")
	}
	return nil
}
