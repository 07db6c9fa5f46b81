package proxy

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"forage"
	"forage/internal/audit"
	"forage/internal/config"
	"forage/internal/testdir"
)

// patience is how long anything may take that is waited for.
const patience = 2 * time.Minute

// Tokens of the clients that most tests have.
const (
	tokenA = "aaaaaaaaaaaaaaaa-token-of-a"
	tokenB = "bbbbbbbbbbbbbbbb-token-of-b"
)

// world is a service with what is around it: an upstream server, and a configuration that tests
// change.
type world struct {
	t   *testing.T
	dir string
	s   *Service

	upstream *httptest.Server
	seen     sync.Map // header of the last request to each path of the upstream

	mu      sync.Mutex
	loaded  config.Config
	loadErr error
	env     map[string]string
	logged  strings.Builder
}

// newWorld has two clients, a and b, on loopback and a unix socket, who may both ask the upstream
// server.
func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: testdir.Plain(t), env: map[string]string{"TOKEN_A": tokenA, "TOKEN_B": tokenB}}
	w.upstream = httptest.NewServer(http.HandlerFunc(w.serveUpstream))
	t.Cleanup(w.upstream.Close)
	w.loaded = config.Config{
		Templates: map[string]forage.Template{
			"a": {Name: "a", Network: forage.Network{Mode: forage.NetworkRestricted, Allow: []string{w.host()}}},
			"b": {Name: "b", Network: forage.Network{Mode: forage.NetworkRestricted, Allow: []string{w.host()}}},
		},
		Secrets: map[string]config.Secret{},
		Proxy: &config.Proxy{
			Listen:     []config.ProxyListen{{Kind: config.ListenTCP, Address: "127.0.0.1:0"}, {Kind: config.ListenUnix, Address: w.dir + "/p.sock"}},
			SocketMode: 0o600, AuditDir: w.dir + "/audit",
			Clients: map[string]config.ProxyClient{
				"a": {Template: "a", Token: &forage.SecretSource{Env: "TOKEN_A"}},
				"b": {Template: "b", Token: &forage.SecretSource{Env: "TOKEN_B"}},
			},
		},
	}
	return w
}

// host is the upstream server as clients name it.
func (w *world) host() string {
	return "host.forage.internal:" + w.upstream.URL[strings.LastIndexByte(w.upstream.URL, ':')+1:]
}

// serveUpstream answers at once, but on /stream, where it sends a line for each that it is sent.
func (w *world) serveUpstream(res http.ResponseWriter, r *http.Request) {
	w.seen.Store(r.URL.Path, r.Header.Clone())
	if r.URL.Path != "/stream" {
		io.Copy(io.Discard, r.Body)
		io.WriteString(res, "upstream saw "+r.URL.Path+"\n")
		return
	}
	control := http.NewResponseController(res)
	control.EnableFullDuplex()
	for lines := bufio.NewScanner(r.Body); ; {
		io.WriteString(res, "tick\n")
		control.Flush()
		if !lines.Scan() {
			return
		}
	}
}

// start starts the service; the test's end stops it.
func (w *world) start() *world {
	w.t.Helper()
	s, err := start(w.options())
	if err != nil {
		w.t.Fatal(err)
	}
	w.s = s
	w.t.Cleanup(func() {
		if err := s.close(); err != nil {
			w.t.Errorf("closing: %v", err)
		}
	})
	return w
}

// run serves until stop is called, and says how that ended.
func (w *world) run(options Options) (stop func(), ended <-chan error) {
	w.t.Helper()
	var err error
	if w.s, err = start(options); err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- w.s.run(ctx) }()
	return stop, result
}

func (w *world) options() Options {
	return Options{
		Load: func() (*config.Config, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			loaded := w.loaded
			return &loaded, w.loadErr
		},
		Getenv:      func(name string) (string, bool) { value, ok := w.env[name]; return value, ok },
		Log:         slog.New(slog.NewTextHandler(&lockedWriter{w: &w.logged}, nil)),
		headTimeout: patience,
	}
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// address is where the service listens on loopback, or for TLS.
func (w *world) address(kind config.ListenKind) string {
	w.t.Helper()
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	for name, listener := range w.s.listeners {
		if prefix, _, _ := strings.Cut(name, "127."); listener.Addr().Network() == "tcp" && (prefix == "tls:") == (kind == config.ListenTLS) {
			return listener.Addr().String()
		}
	}
	w.t.Fatalf("there is no %s listener", kind)
	return ""
}

// client is an HTTP client that uses the service as its proxy, with a token.
func (w *world) client(name, token string) *http.Client {
	proxyURL := &url.URL{Scheme: "http", Host: w.address(config.ListenTCP), User: url.UserPassword(name, token)}
	transport := &http.Transport{Proxy: http.ProxyURL(proxyURL)}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// get asks for a path of the upstream server and returns what came back.
func (w *world) get(c *http.Client, path string) (status int, body string, err error) {
	res, err := c.Get("http://" + w.host() + path)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// dial connects to the service on loopback.
func (w *world) dial() net.Conn { return w.dialTo(config.ListenTCP) }

func (w *world) dialTo(kind config.ListenKind) net.Conn {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.address(kind))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// ask writes text to the service and returns all that comes back until it closes the connection.
func ask(t *testing.T, conn net.Conn, text string) string {
	t.Helper()
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	back, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the connection is still open after %q", back)
	}
	return string(back)
}

// events are the lines of a client's audit log, or of the service's ("_proxy").
func (w *world) events(name string) []audit.Event {
	w.t.Helper()
	var events []audit.Event
	for e, err := range audit.EventsOf(filepath.Join(w.dir, "audit", name+".audit.jsonl"), audit.Filter{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

// denials are the reasons of the service's own refusals.
func (w *world) denials() (reasons []string) {
	for _, e := range w.events("_proxy") {
		if e.Verdict == "deny" {
			reasons = append(reasons, e.Rule+": "+e.Reason)
		}
	}
	return reasons
}

// wantDenial waits for a refusal in the service's own log.
func (w *world) wantDenial(text string) {
	w.t.Helper()
	eventually(w.t, "a denial with "+text, func() bool { return strings.Contains(strings.Join(w.denials(), "\n"), text) })
}

func eventually(t *testing.T, what string, isTrue func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !isTrue(); {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// change changes the configuration and has it read again.
func (w *world) change(change func(*config.Config)) {
	w.t.Helper()
	w.mu.Lock()
	next := w.loaded
	proxy := *next.Proxy
	proxy.Clients = map[string]config.ProxyClient{}
	for name, c := range w.loaded.Proxy.Clients {
		proxy.Clients[name] = c
	}
	next.Proxy = &proxy
	next.Templates = map[string]forage.Template{}
	for name, t := range w.loaded.Templates {
		next.Templates[name] = t
	}
	change(&next)
	w.loaded = next
	w.mu.Unlock()
	w.s.reload("the test has changed it")
}

// pki is a certificate authority.
type pki struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	p := &pki{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	var err error
	if p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &p.key.PublicKey, p.key)
	if err != nil {
		t.Fatal(err)
	}
	p.cert, _ = x509.ParseCertificate(der)
	return p
}

// issue makes a certificate; its names are as the configuration writes them, and "IP:...".
func (p *pki) issue(usage x509.ExtKeyUsage, names ...string) tls.Certificate {
	p.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), ExtKeyUsage: []x509.ExtKeyUsage{usage},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	for _, name := range names {
		kind, value, _ := strings.Cut(name, ":")
		switch kind {
		case "URI":
			uri, _ := url.Parse(value)
			template.URIs = append(template.URIs, uri)
		case "DNS":
			template.DNSNames = append(template.DNSNames, value)
		case "CN":
			template.Subject.CommonName = value
		case "IP":
			template.IPAddresses = append(template.IPAddresses, net.ParseIP(value))
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, p.cert, &key.PublicKey, p.key)
	if err != nil {
		p.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (p *pki) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(p.cert)
	return pool
}

func writeFile(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func keyPEM(t *testing.T, c tls.Certificate) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
