package acceptance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"forage/internal/testdir"
)

// serveTLS serves handler over HTTPS on a free loopback port, under a certificate for
// name from an authority made for this test. It returns the address and the
// file with the authority's certificate.
func serveTLS(t *testing.T, name string, handler http.Handler) (addr, caFile string) {
	t.Helper()
	ca := newAuthority(t)
	return ca.serve(name, handler), ca.file
}

// authority is a certificate authority made for one test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // with its certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, file: filepath.Join(t.TempDir(), "ca.pem")}
	a.cert, a.key = certificate(t, &x509.Certificate{
		Subject:               pkix.Name{CommonName: "Forage acceptance test"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}, nil, nil)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	testdir.Must(t, os.WriteFile(a.file, text, 0o644))
	return a
}

// serve serves handler over HTTPS as the host of that name, on a free loopback port.
func (a *authority) serve(name string, handler http.Handler) (addr string) {
	a.t.Helper()
	leaf, leafKey := certificate(a.t, &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    []string{name},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.cert, a.key)
	srv := httptest.NewUnstartedServer(handler)
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: leafKey}}}
	srv.EnableHTTP2 = true
	srv.StartTLS()
	a.t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// certificate makes a key and a certificate for it, valid for an hour; without a
// parent it signs itself.
func certificate(t *testing.T, template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testdir.Must(t, err)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Minute)
	template.NotAfter = time.Now().Add(time.Hour)
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	testdir.Must(t, err)
	cert, err := x509.ParseCertificate(der)
	testdir.Must(t, err)
	return cert, key
}
