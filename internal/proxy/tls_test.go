package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"forage/internal/config"
)

// newTLSWorld has a third client, t, with a certificate, and a tls listener.
func newTLSWorld(t *testing.T) (w *world, server, clients *pki) {
	w = newWorld(t)
	server, clients = newPKI(t), newPKI(t)
	own := server.issue(x509.ExtKeyUsageServerAuth, "IP:127.0.0.1")
	p := w.loaded.Proxy
	p.Certificate, p.Key, p.ClientCA = w.dir+"/server.pem", w.dir+"/server.key", w.dir+"/clients.pem"
	writeFile(t, p.Certificate, certPEM(own.Certificate[0]))
	writeFile(t, p.Key, keyPEM(t, own))
	writeFile(t, p.ClientCA, certPEM(clients.cert.Raw))
	p.Listen = append(p.Listen, config.ProxyListen{Kind: config.ListenTLS, Address: "127.0.0.1:0"})
	p.Clients["t"] = config.ProxyClient{Template: "a", Certificate: "URI:spiffe://example.com/t"}
	return w, server, clients
}

// tlsClient is an HTTP client that uses the tls listener as its proxy.
func (w *world) tlsClient(server *pki, certificates []tls.Certificate, header http.Header) *http.Client {
	transport := &http.Transport{
		Proxy:              http.ProxyURL(&url.URL{Scheme: "https", Host: w.address(config.ListenTLS)}),
		TLSClientConfig:    &tls.Config{RootCAs: server.pool(), Certificates: certificates, ClientSessionCache: tls.NewLRUClientSessionCache(8)},
		ProxyConnectHeader: header,
	}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

func TestCertificates(t *testing.T) {
	w, server, clients := newTLSWorld(t)
	w.start()
	stranger := newPKI(t)
	self := stranger.issue(x509.ExtKeyUsageClientAuth, "URI:spiffe://example.com/t")
	for name, test := range map[string]struct {
		certificates []tls.Certificate
		status       int // 0: no connection
	}{
		"the client's":         {[]tls.Certificate{clients.issue(x509.ExtKeyUsageClientAuth, "URI:spiffe://example.com/t")}, 200},
		"with other names":     {[]tls.Certificate{clients.issue(x509.ExtKeyUsageClientAuth, "CN:x", "URI:spiffe://example.com/t")}, 200},
		"none":                 {nil, 0},
		"another authority's":  {[]tls.Certificate{self}, 0},
		"a server's":           {[]tls.Certificate{clients.issue(x509.ExtKeyUsageServerAuth, "URI:spiffe://example.com/t")}, 0},
		"the proxy's own":      {[]tls.Certificate{server.issue(x509.ExtKeyUsageClientAuth, "URI:spiffe://example.com/t")}, 0},
		"nobody's":             {[]tls.Certificate{clients.issue(x509.ExtKeyUsageClientAuth, "URI:spiffe://example.com/u")}, 407},
		"the name elsewhere":   {[]tls.Certificate{clients.issue(x509.ExtKeyUsageClientAuth, "CN:spiffe://example.com/t")}, 407},
		"a token client's":     {[]tls.Certificate{clients.issue(x509.ExtKeyUsageClientAuth, "CN:a")}, 407},
		"the name with an end": {[]tls.Certificate{clients.issue(x509.ExtKeyUsageClientAuth, "URI:spiffe://example.com/t/")}, 407},
	} {
		t.Run(name, func(t *testing.T) {
			status, body, err := w.get(w.tlsClient(server, test.certificates, nil), "/x")
			if status != test.status || (err != nil) != (test.status == 0) || (body == "upstream saw /x\n") != (status == 200) {
				t.Errorf("got %d %q, %v; want %d", status, body, err, test.status)
			}
		})
	}
	w.wantDenial("no-identity: from 127.0.0.1:")
	w.wantDenial("no client has its certificate's name")
}

// TestAuthorityIsTakenAway: whose authority is removed does not come back with a session that it
// had.
func TestAuthorityIsTakenAway(t *testing.T) {
	w, server, clients := newTLSWorld(t)
	w.start()
	c := w.tlsClient(server, []tls.Certificate{clients.issue(x509.ExtKeyUsageClientAuth, "URI:spiffe://example.com/t")}, nil)
	if status, _, err := w.get(c, "/x"); status != 200 || err != nil {
		t.Fatal(status, err)
	}
	c.CloseIdleConnections()
	writeFile(t, w.loaded.Proxy.ClientCA, certPEM(newPKI(t).cert.Raw))
	w.change(func(*config.Config) {})
	var alert tls.AlertError
	if status, _, err := w.get(c, "/y"); err == nil || status != 0 || !errors.As(err, &alert) && !strings.Contains(err.Error(), "tls") && !strings.Contains(err.Error(), "reset") {
		t.Errorf("after that: %d, %v", status, err)
	}
	if _, reached := w.seen.Load("/y"); reached {
		t.Error("the upstream server was asked")
	}
}

// TestTokensAreNotForTLS: a token makes no client another one there, and none opens the listener.
func TestTokensAreNotForTLS(t *testing.T) {
	w, server, clients := newTLSWorld(t)
	w.start()
	conn, err := tls.Dial("tcp", w.address(config.ListenTLS), &tls.Config{
		RootCAs: server.pool(), Certificates: []tls.Certificate{clients.issue(x509.ExtKeyUsageClientAuth, "URI:spiffe://example.com/t")},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if back := ask(t, conn, w.request("/x", tokenB, "")); !strings.HasPrefix(back, "HTTP/1.1 407 ") {
		t.Errorf("got %q", back)
	}
	plain := w.dialTo(config.ListenTLS)
	io.WriteString(plain, w.request("/x", tokenA, ""))
	if back, _ := io.ReadAll(plain); strings.Contains(string(back), "200") {
		t.Errorf("without TLS: %q", back)
	}
	if _, reached := w.seen.Load("/x"); reached {
		t.Error("the upstream server was asked")
	}
	// And a certificate is nothing on loopback.
	overTCP := w.tlsClient(server, []tls.Certificate{clients.issue(x509.ExtKeyUsageClientAuth, "URI:spiffe://example.com/t")}, nil)
	overTCP.Transport.(*http.Transport).Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: w.address(config.ListenTCP)})
	if status, _, err := w.get(overTCP, "/x"); status != 407 || err != nil {
		t.Errorf("over TCP: %d, %v", status, err)
	}
}
