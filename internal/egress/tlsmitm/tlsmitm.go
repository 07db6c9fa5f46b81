// Package tlsmitm is a certificate authority that lives as long as a
// sandbox: its key is in memory only, and it vouches to the sandbox for the
// servers that egress stands in for. Nothing outside of that sandbox trusts it. It opens no
// connection and knows no policy.
package tlsmitm

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// How long certificates are valid. The authority's has to outlast its sandbox,
// since what runs inside reads it once; its key ends with the sandbox all the same.
const (
	early        = time.Hour // before now, for clocks that are behind
	authorityFor = 366 * 24 * time.Hour
	leafFor      = 7 * 24 * time.Hour
	leafRenewed  = 24 * time.Hour // before its end
	maxCommon    = 64             // ub-common-name, RFC 5280
	maxRecent    = 1024           // configurations that are kept
)

// Authority issues certificates for the names that a sandbox asks for. It may
// be used from any goroutine.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	leaf *ecdsa.PrivateKey // of every certificate that is issued: one sandbox trusts them all
	now  func() time.Time

	mu     sync.Mutex
	recent map[string]*issued // by host and protocols
}

// New makes an authority, with a new key. name is the sandbox's, for people who look at a
// certificate.
func New(name string) (*Authority, error) { return newAuthority(name, time.Now) }

func newAuthority(name string, now func() time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of the sandbox's certificate authority: %w", err)
	}
	leaf, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of the sandbox's certificates: %w", err)
	}
	common := []rune("forage sandbox " + name)
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: string(common[:min(len(common), maxCommon)]), Organization: []string{"forage"}},
		NotBefore:             now().Add(-early),
		NotAfter:              now().Add(authorityFor),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true, // it has no authorities below it
	}
	cert, err := sign(template, nil, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key, leaf: leaf, now: now, recent: make(map[string]*issued)}, nil
}

// sign makes a certificate; parent nil makes one that signs itself. A template without serial
// number gets a random one (RFC 5280, 4.1.2.2).
func sign(template, parent *x509.Certificate, pub *ecdsa.PublicKey, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, key)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

// PEM is the authority's certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// Config is how to be a server of that name (or address), with the protocols
// protos (ALPN). It is shared by those who ask for the same, so that clients can resume their
// sessions, and must not be changed.
func (a *Authority) Config(host string, protos []string) *tls.Config {
	key := host + "\x00" + strings.Join(protos, "\x00")
	a.mu.Lock()
	defer a.mu.Unlock()
	if found := a.recent[key]; found != nil {
		return found.config
	}
	made := &issued{}
	made.config = &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protos,
		// What is said stays on this machine, so the cheapest exchange is the best.
		CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521},
		GetCertificate:   func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.certificate(made, host) },
	}
	if len(a.recent) >= maxRecent { // those that are still asked for come again
		clear(a.recent)
	}
	a.recent[key] = made
	return made.config
}

// issued is a configuration and the certificate that it presents now.
type issued struct {
	config *tls.Config
	cert   *tls.Certificate // guarded by Authority.mu
}

// certificate is for host, a new one when there is none or it is about to end.
func (a *Authority) certificate(of *issued, host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if of.cert != nil && a.now().Before(of.cert.Leaf.NotAfter.Add(-leafRenewed)) {
		return of.cert, nil
	}
	template := &x509.Certificate{
		NotBefore:             a.now().Add(-early),
		NotAfter:              a.now().Add(leafFor),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if len(host) <= maxCommon {
		template.Subject.CommonName = host
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		template.IPAddresses = append(template.IPAddresses, addr.Unmap().AsSlice())
	} else {
		template.DNSNames = []string{host}
	}
	leaf, err := sign(template, a.cert, &a.leaf.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("a certificate for %q: %w", host, err)
	}
	of.cert = &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: a.leaf, Leaf: leaf}
	return of.cert, nil
}
