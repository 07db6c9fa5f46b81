package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// serveTLSCommand is a web server on the host that speaks HTTPS for the host names
// given. Its address is in $NAME, the authority to trust is in the file NAME.pem, and
// what was asked of it in NAME.log, header by header. It answers with all that it was told.
func serveTLSCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: serve-tls NAME HOST...")
	}
	base := filepath.Join(ts.Getenv("WORK"), args[0])
	log, err := os.OpenFile(base+".log", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	ts.Check(err)
	ts.Defer(func() { log.Close() })
	server, ca := tlsServer(echo(args[0], log), args[1:]...)
	ts.Defer(server.Close)
	ts.Check(os.WriteFile(base+".pem", ca, 0o644))
	ts.Setenv(args[0], server.Listener.Addr().String())
}

// echo writes down each request, and answers with it.
func echo(name string, log *os.File) http.Handler {
	var mu sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := fmt.Sprintf("%s saw %s https://%s%s\n", name, r.Method, r.Host, r.URL.RequestURI())
		for _, header := range slices.Sorted(maps.Keys(r.Header)) {
			text += fmt.Sprintf("%s: %s\n", header, strings.Join(r.Header[header], ", "))
		}
		mu.Lock()
		defer mu.Unlock()
		log.WriteString(text)
		w.Write([]byte(text))
	})
}

// tlsServer serves handler for hosts under an authority of its own, whose certificate is ca.
func tlsServer(handler http.Handler, hosts ...string) (server *httptest.Server, ca []byte) {
	root, rootKey := issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "Forage test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	leaf, key := issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: hosts[0]}, DNSNames: hosts,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, root, rootKey)
	server = httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}}}
	server.EnableHTTP2 = true
	server.StartTLS()
	return server, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw})
}

// issue makes a key and a certificate that is valid for an hour; without a parent it signs itself.
func issue(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // no entropy
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		panic(err) // a template of ours that can't be signed
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return cert, key
}
