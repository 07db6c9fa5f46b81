package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"forage"
	"forage/internal/audit"
	"forage/internal/config"
)

const secretOfA = "sk-real-secret-of-a-0123456789"

// newSecretWorld has an API server with TLS, which both clients may ask, and a secret for it that
// is a's.
func newSecretWorld(t *testing.T) (w *world, api *pki, seen chan http.Header) {
	w, api, seen = newWorld(t), newPKI(t), make(chan http.Header, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(res http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Clone()
		io.WriteString(res, "api")
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{api.issue(x509.ExtKeyUsageServerAuth, "DNS:api.example.com")}}
	server.StartTLS()
	t.Cleanup(server.Close)
	writeFile(t, w.dir+"/api.pem", certPEM(api.cert.Raw))
	w.loaded.Network = forage.NetworkFacts{
		UpstreamCA: w.dir + "/api.pem", Resolve: map[string]string{"api.example.com:443": server.Listener.Addr().String()},
	}
	writeFile(t, w.dir+"/secret", []byte(secretOfA+"\n"))
	w.loaded.Secrets["api"] = config.Secret{File: w.dir + "/secret", Hosts: []string{"api.example.com"}, Header: "X-Api-Key", Place: forage.PlaceHeader}
	for _, name := range []string{"a", "b"} {
		template := w.loaded.Templates[name]
		template.Network.Allow = []string{"api.example.com:443"}
		if name == "a" {
			template.Secrets = []string{"api"}
		}
		w.loaded.Templates[name] = template
	}
	return w, api, seen
}

// authority is what a client trusts that has asked the proxy for its certificate.
func (w *world) authority(name, token string) *x509.CertPool {
	w.t.Helper()
	res, err := w.client(name, token).Get("http://forage.internal/ca.pem")
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		w.t.Fatalf("no certificate: %q", text)
	}
	return pool
}

// ask asks the API server, trusting roots alone.
func (w *world) askAPI(name, token string, roots *x509.CertPool, key string) (string, error) {
	c := w.client(name, token)
	c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots}
	request, _ := http.NewRequest(http.MethodGet, "https://api.example.com/v1", nil)
	request.Header.Set("X-Api-Key", key)
	request.Header.Set("Proxy-Authorization", "Bearer "+token) // inside of the tunnel, where it has no business
	res, err := c.Do(request)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.Status + " " + string(text), err
}

// TestSecretsAreSeparate: a's secret goes into a's requests and no others, whatever the others say.
// No client trusts another's authority.
func TestSecretsAreSeparate(t *testing.T) {
	w, api, seen := newSecretWorld(t)
	w.start()
	ofA, ofB := w.authority("a", tokenA), w.authority("b", tokenB)
	placeholder := w.s.clients["a"].plan.bindings[0].Placeholder

	if answer, err := w.askAPI("a", tokenA, ofA, placeholder); answer != "200 OK api" || err != nil {
		t.Fatalf("a: %q, %v", answer, err)
	}
	header := <-seen
	if got := header.Get("X-Api-Key"); got != secretOfA {
		t.Errorf("a's request had %q", got)
	}
	if got := header.Get("Proxy-Authorization"); got != "" {
		t.Errorf("what was for the proxy was sent on: %q", got)
	}
	// b's connection is not looked into, and its key is what it says.
	if answer, err := w.askAPI("b", tokenB, api.pool(), placeholder); answer != "200 OK api" || err != nil {
		t.Fatalf("b: %q, %v", answer, err)
	}
	if got := (<-seen).Get("X-Api-Key"); got != placeholder {
		t.Errorf("b's request had %q", got)
	}
	// Who trusts b's authority does not believe what a is told, and the other way round.
	var unknown x509.UnknownAuthorityError
	for name, roots := range map[string]*x509.CertPool{"b's": ofB, "the server's": api.pool()} {
		if answer, err := w.askAPI("a", tokenA, roots, ""); !errors.As(err, &unknown) {
			t.Errorf("a, trusting %s authority: %q, %v", name, answer, err)
		}
	}
	template := w.loaded.Templates["b"]
	template.Network.Rules = []forage.Rule{{Host: "api.example.com:443", Paths: []string{"/v1"}}}
	w.change(func(c *config.Config) { c.Templates["b"] = template })
	if answer, err := w.askAPI("b", tokenB, ofA, ""); !errors.As(err, &unknown) {
		t.Errorf("b, whose TLS is looked into now, trusting a's authority: %q, %v", answer, err)
	}
	if answer, err := w.askAPI("b", tokenB, ofB, placeholder); answer != "200 OK api" || err != nil {
		t.Fatalf("b, looked into: %q, %v", answer, err)
	}
	if got := (<-seen).Get("X-Api-Key"); got == secretOfA {
		t.Error("b's request had a's secret")
	}
	for _, name := range []string{"a", "b", "_proxy"} {
		for _, e := range w.events(name) {
			if strings.Contains(e.Reason+e.Path+e.Host, secretOfA) {
				t.Errorf("the secret is in the log of %s: %+v", name, e)
			}
		}
	}
	if !hasSecretLine(w.events("a")) {
		t.Errorf("no line of a's log names the secret: %+v", w.events("a"))
	}
}

func hasSecretLine(events []audit.Event) bool {
	for _, e := range events {
		if e.Secret == "api" {
			return true
		}
	}
	return false
}

// TestVariables: a client's programs are told placeholders, and no client another's.
func TestVariables(t *testing.T) {
	w, _, _ := newSecretWorld(t)
	w.loaded.Secrets["anthropic"] = config.Secret{File: w.dir + "/secret", Hosts: []string{"api.example.com"}, Preset: "anthropic"}
	a := w.loaded.Templates["a"]
	a.Secrets = nil
	a.Agents = map[string]forage.Agent{"x": {AuthEnvVar: "X_KEY", Secret: "anthropic", BaseURLEnvVar: "X_URL"}}
	w.loaded.Templates["a"] = a
	w.start()
	get := func(name, token string) string {
		t.Helper()
		res, err := w.client(name, token).Get("http://forage.internal/env")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.Status + "\n" + string(text)
	}
	placeholder := w.s.clients["a"].plan.bindings[0].Placeholder
	if got := get("a", tokenA); !strings.Contains(got, "\nexport X_KEY='"+placeholder+"'\n") || strings.Contains(got, secretOfA) || strings.Contains(got, "X_URL") {
		t.Errorf("a: %q", got)
	}
	if got := get("b", tokenB); got != "200 OK\n" {
		t.Errorf("b: %q", got)
	}
	if got := get("a", tokenB); !strings.HasPrefix(got, "407 ") {
		t.Errorf("a stranger: %q", got)
	}
}

// TestSecretIsTakenAway: a secret that the configuration has no more, or has anew, is so for the
// next request.
func TestSecretIsTakenAway(t *testing.T) {
	w, _, seen := newSecretWorld(t)
	w.start()
	ofA := w.authority("a", tokenA)
	next := func() string {
		t.Helper()
		if answer, err := w.askAPI("a", tokenA, ofA, "mine"); answer != "200 OK api" || err != nil {
			t.Fatalf("%q, %v", answer, err)
		}
		return (<-seen).Get("X-Api-Key")
	}
	if got := next(); got != secretOfA {
		t.Fatalf("it had %q", got)
	}
	writeFile(t, w.dir+"/secret", []byte("sk-another-secret-of-a-99"))
	if got := next(); got != "sk-another-secret-of-a-99" {
		t.Errorf("after the file was written: %q", got)
	}
	w.change(func(c *config.Config) {
		a := c.Templates["a"]
		a.Secrets = nil
		a.Network.Rules = []forage.Rule{{Host: "api.example.com:443", Inspect: true}}
		c.Templates["a"] = a
	})
	if got := next(); got != "mine" {
		t.Errorf("without the secret: %q", got)
	}
}

// TestSourceFails: the client learns that there is none, and the log why.
func TestSourceFails(t *testing.T) {
	w, _, _ := newSecretWorld(t)
	w.loaded.Secrets["api"] = config.Secret{File: w.dir + "/absent", Hosts: []string{"api.example.com"}, Header: "X-Api-Key"}
	w.start()
	answer, err := w.askAPI("a", tokenA, w.authority("a", tokenA), "")
	if err != nil || !strings.HasPrefix(answer, "502 ") || strings.Contains(answer, w.dir) {
		t.Errorf("%q, %v", answer, err)
	}
	if !hasSecretLine(w.events("a")) {
		t.Errorf("its log: %+v", w.events("a"))
	}
}

// TestDrain: a stream that ends in time ends as it should.
func TestDrain(t *testing.T) {
	w := newWorld(t)
	options := w.options()
	options.Drain = patience
	stop, ended := w.run(options)
	c := w.client("a", tokenA)
	under := w.startStream(c)
	address := w.address(config.ListenTCP)
	stop()
	eventually(t, "nobody is let in any more", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	if err := under.tick(); err != nil {
		t.Errorf("the stream: %v", err)
	}
	under.lines.Close()
	if rest, err := io.ReadAll(under.body); err != nil {
		t.Errorf("its end: %q, %v", rest, err)
	}
	c.CloseIdleConnections()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
