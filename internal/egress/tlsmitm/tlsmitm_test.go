package tlsmitm

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// meet makes a client and a server of config meet.
func meet(t *testing.T, client, server *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	inside, outside := net.Pipe()
	defer inside.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer outside.Close()
		tls.Server(outside, server).Handshake()
	}()
	conn := tls.Client(inside, client)
	err := conn.Handshake()
	inside.Close()
	<-done
	return conn.ConnectionState(), err
}

func roots(t *testing.T, a *Authority) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(a.PEM()) {
		t.Fatal("PEM is not a certificate")
	}
	return pool
}

func TestConfig(t *testing.T) {
	a, err := New("box")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a", 60) + "." + strings.Repeat("b", 60) + ".example"
	for _, host := range []string{"a.example", "xn--bcher-kva.example", long, "_x.example", "192.0.2.7", "2001:db8::1"} {
		state, err := meet(t, &tls.Config{ServerName: host, RootCAs: roots(t, a), NextProtos: []string{"http/1.1", "h2"}}, a.Config(host, []string{"h2", "http/1.1"}))
		if err != nil || state.NegotiatedProtocol != "h2" {
			t.Errorf("%s: %q, %v", host, state.NegotiatedProtocol, err)
		}
	}
	// One authority is nothing to another, and a certificate is for one name.
	other, err := New("other")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := meet(t, &tls.Config{ServerName: "a.example", RootCAs: roots(t, other)}, a.Config("a.example", nil)); err == nil {
		t.Error("another sandbox's authority was believed")
	}
	if _, err := meet(t, &tls.Config{ServerName: "b.example", RootCAs: roots(t, a)}, a.Config("a.example", nil)); err == nil {
		t.Error("a certificate of another name was believed")
	}
}

func TestCertificates(t *testing.T) {
	now := time.Now()
	a, err := newAuthority("box", func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	leaf := func(host string) *x509.Certificate {
		cert, err := a.Config(host, nil).GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return cert.Leaf
	}
	first := leaf("a.example")
	if !leaf("a.example").Equal(first) {
		t.Error("it is issued again each time")
	}
	if other := leaf("b.example"); other.SerialNumber.Cmp(first.SerialNumber) == 0 || other.SerialNumber.BitLen() < 64 {
		t.Errorf("serial numbers %v and %v", first.SerialNumber, other.SerialNumber)
	}
	if first.IsCA || !a.cert.IsCA || !a.cert.MaxPathLenZero {
		t.Error("who may sign is wrong")
	}
	now = now.Add(leafFor - leafRenewed)
	again := leaf("a.example")
	if again.Equal(first) || again.NotAfter.Before(now.Add(leafRenewed)) {
		t.Errorf("a certificate that ends %v is presented at %v", again.NotAfter, now)
	}
	for i := range 2 * maxRecent {
		a.Config(fmt.Sprintf("h%d.example", i), nil)
	}
	if n := len(a.recent); n > maxRecent {
		t.Errorf("%d are kept", n)
	}
}
