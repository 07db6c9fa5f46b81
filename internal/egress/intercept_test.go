package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"forage"
	"forage/internal/audit"
	"forage/internal/egress/tlsmitm"
	"forage/internal/policy"
)

// looked is a policy that looks into requests to hosts.
func looked(t testing.TB, rules ...forage.Rule) policy.Policy {
	t.Helper()
	p, err := policy.Compile(forage.Network{Mode: forage.NetworkRestricted, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// inspected is a rule that allows everything of a host, and looks at it.
func inspected(host string) forage.Rule { return forage.Rule{Host: host, Inspect: true} }

// secureWorld is a world whose sandbox trusts an authority, with servers over TLS.
type secureWorld struct {
	*world
	authority *tlsmitm.Authority
	inside    *x509.CertPool
	server    tls.Certificate
}

func newSecureWorld(t testing.TB, p policy.Policy, change func(*Config)) *secureWorld {
	t.Helper()
	authority, err := tlsmitm.New("box")
	if err != nil {
		t.Fatal(err)
	}
	s := &secureWorld{authority: authority, inside: x509.NewCertPool()}
	s.inside.AppendCertsFromPEM(authority.PEM())
	cert, roots := certificate(t, "a.example", "b.example", "api.anthropic.com", public)
	s.server = cert
	s.world = newWorld(t, p, func(c *Config) {
		c.Authority, c.RootCAs = authority, roots
		if change != nil {
			change(c)
		}
	})
	s.name("a.example", public)
	s.name("b.example", public)
	s.name("api.anthropic.com", public)
	return s
}

// serveTLS puts a server over TLS at an address; with HTTP/2 unless told otherwise.
func (s *secureWorld) serveTLS(addr string, handler http.Handler, protocols ...string) *http.Server {
	s.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{Certificates: []tls.Certificate{s.server}}}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(len(protocols) == 0)
	done := make(chan struct{})
	go func() { server.ServeTLS(listener, "", ""); close(done) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers[netip.MustParseAddrPort(addr)] = listener.Addr().String()
	s.stops = append(s.stops, func() { server.Close(); <-done })
	return server
}

// client is an HTTP client inside, whose connections are redirected.
func (s *secureWorld) client(http2 bool) *http.Client {
	s.t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(http2)
	transport := &http.Transport{
		DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			var n uint16
			fmt.Sscan(port, &n)
			return s.toName(host, n), nil
		},
		TLSClientConfig:    &tls.Config{RootCAs: s.inside},
		Protocols:          protocols,
		DisableCompression: true,
	}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// secure is a connection inside, over TLS, that speaks HTTP/1.
func (s *secureWorld) secure(host string) (net.Conn, *bufio.Reader) {
	s.t.Helper()
	conn := tls.Client(s.toName(host, 443), &tls.Config{ServerName: host, RootCAs: s.inside, NextProtos: []string{"http/1.1"}})
	if err := conn.Handshake(); err != nil {
		s.t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// answer reads a response to a request.
func answer(t testing.TB, res *http.Response, err error) (int, string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// HTTP/1.1 and HTTP/2, each inside and towards the server.
func TestIntercept(t *testing.T) {
	for _, inside := range []bool{false, true} {
		for _, outside := range [][]string{nil, {"http/1.1"}} {
			t.Run(fmt.Sprintf("HTTP/2 inside %v, outside %v", inside, outside == nil), func(t *testing.T) {
				s := newSecureWorld(t, looked(t, inspected("a.example")), nil)
				s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Alt-Svc", `h3=":443"`)
					body, _ := io.ReadAll(r.Body)
					fmt.Fprintf(w, "%s %s %s %s %q", r.Proto, r.Method, r.Host, r.RequestURI, body)
				}), outside...)
				client := s.client(inside)
				res, err := client.Post("https://a.example/x%2fy?q=secret", "text/plain", strings.NewReader("hello"))
				if err != nil {
					t.Fatal(err)
				}
				if (res.ProtoMajor == 2) != inside || res.Header.Get("Alt-Svc") != "" {
					t.Errorf("%s, %v", res.Proto, res.Header)
				}
				proto := "HTTP/2.0"
				if outside != nil {
					proto = "HTTP/1.1"
				}
				if status, body := answer(t, res, nil); status != 200 || body != proto+` POST a.example /x%2fy?q=secret "hello"` {
					t.Errorf("%d, %q", status, body)
				}
				e := s.closed(audit.HTTP)
				if e.Host != "a.example" || e.Port != 443 || e.Method != "POST" || e.Path != "/x%2fy" || e.Status != 200 || e.BytesOut != 5 || e.BytesIn != int64(len(proto+` POST a.example /x%2fy?q=secret "hello"`)) {
					t.Errorf("%+v", e)
				}
			})
		}
	}
}
