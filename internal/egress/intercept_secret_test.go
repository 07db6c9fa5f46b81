package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"forage"
	"forage/internal/audit"
	"forage/internal/egress/credential"
	"forage/internal/secrets"
)

// vault is a source that can be made to fail.
type vault struct {
	mu    sync.Mutex
	value string
	err   error
}

func (v *vault) Get(context.Context) (secrets.Secret, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return secrets.New(v.value), v.err
}

func (v *vault) set(value string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.value, v.err = value, err
}

const (
	testSecret      = "sk-ant-the-real-thing-0123456789"
	testPlaceholder = "sk-ant-placeholder-0123456789"
)

// bound is a set with a secret for hosts, put into x-api-key.
func bound(t testing.TB, v secrets.Source, gateway string, hosts ...string) *credential.Set {
	t.Helper()
	set, err := credential.Compile([]forage.Binding{{
		Secret: "model", Placeholder: testPlaceholder,
		Uses: []forage.SecretUse{{Hosts: hosts, Place: forage.PlaceHeader, Name: "X-Api-Key", Gateway: gateway}},
	}}, map[string]secrets.Source{"model": v})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// teller is a server that answers with the key that it got.
func teller(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s key=%q auth=%q\n", r.Host, r.RequestURI, r.Header.Get("X-Api-Key"), r.Header.Get("Authorization"))
}

func newSecretWorld(t *testing.T, v *vault, allow ...string) (*secureWorld, *[]string) {
	t.Helper()
	s := newSecureWorld(t, mustPolicy(t, "restricted", allow...), func(c *Config) {
		c.Credentials = bound(t, v, "model", "a.example")
	})
	var mu sync.Mutex
	var keys []string
	s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		keys = append(keys, r.Header.Get("X-Api-Key"))
		mu.Unlock()
		teller(w, r)
	}))
	t.Cleanup(func() { mu.Lock(); defer mu.Unlock() })
	return s, &keys
}

// The server gets the secret; the client, the audit log and another host don't.
func TestInterceptedSecret(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		s, keys := newSecretWorld(t, &vault{value: testSecret}, "a.example", "b.example")
		client := s.client(http2)
		r, _ := http.NewRequest("GET", "https://a.example/v1", nil)
		r.Header.Set("X-Api-Key", testPlaceholder)
		r.Header.Set("Authorization", "Bearer of-somebody-else")
		res, err := client.Do(r)
		status, body := answer(t, res, err)
		if status != 200 || !strings.HasPrefix(body, "a.example /v1 key=") || !strings.Contains(body, `auth=""`) || strings.Contains(body, testSecret) {
			t.Errorf("%d, %q", status, body)
		}
		if len(*keys) != 1 || (*keys)[0] != testSecret {
			t.Errorf("the server got %q", *keys)
		}
		if e := s.closed(audit.HTTP); e.Secret != "model" || e.Status != 200 {
			t.Errorf("%+v", e)
		}
		if e := s.denied("foreign-credential"); e.Kind != audit.Secret || !strings.Contains(strings.ToLower(e.Reason), "authorization") {
			t.Errorf("%+v", e)
		}
		for _, e := range s.log.all() {
			if strings.Contains(fmt.Sprintf("%+v", e), testSecret) || strings.Contains(fmt.Sprintf("%+v", e), "somebody-else") {
				t.Errorf("a value in the audit log: %+v", e)
			}
		}
		// b.example is not looked into, and gets nothing.
		if !strings.Contains(sniffed(t, s, "b.example"), `key=""`) {
			t.Error("another host got the secret")
		}
	}
}

// sniffed is what a host that is not looked into answers.
func sniffed(t *testing.T, s *secureWorld, host string) string {
	t.Helper()
	client := s.client(true)
	client.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify = true
	res, err := client.Get("https://" + host + "/")
	if err == nil && res.TLS.PeerCertificates[0].Subject.CommonName == host {
		t.Errorf("%s was looked into", host)
	}
	_, body := answer(t, res, err)
	return body
}

// picky is a vault whose secret is not for everything.
type picky struct{ vault }

func (p *picky) Answer(r *http.Request) (*http.Response, bool) {
	if r.URL.Path != "/account" {
		return nil, false
	}
	return &http.Response{StatusCode: 403, ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(strings.NewReader("not that"))}, true
}

// What a secret may not be used for is not sent on, and denied in the record.
func TestInterceptedSecretRefused(t *testing.T) {
	s := newSecureWorld(t, mustPolicy(t, "restricted", "a.example"), func(c *Config) {
		c.Credentials = bound(t, &picky{vault{value: testSecret}}, "", "a.example")
	})
	s.serveTLS(public+":443", http.HandlerFunc(teller))
	client := s.client(false)
	res, err := client.Get("https://a.example/account")
	if status, body := answer(t, res, err); status != 403 || body != "not that" {
		t.Errorf("%d, %q", status, body)
	}
	if e := s.denied("secret-refused"); e.Kind != audit.Secret || e.Secret != "model" || e.Host != "a.example" || e.Path != "/account" {
		t.Errorf("%+v", e)
	}
	res, err = client.Get("https://a.example/v1")
	if status, _ := answer(t, res, err); status != 200 {
		t.Errorf("%d", status)
	}
}

// An answer that can't be looked through is said to be so.
func TestInterceptedSecretEncoded(t *testing.T) {
	s := newSecureWorld(t, mustPolicy(t, "restricted", "a.example"), func(c *Config) {
		c.Credentials = bound(t, &vault{value: testSecret}, "", "a.example")
	})
	s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		teller(w, r)
	}))
	res, err := s.client(false).Get("https://a.example/v1")
	if status, body := answer(t, res, err); status != 502 || !strings.Contains(body, "compressed its answer as br") {
		t.Errorf("%d, %q", status, body)
	}
}

// Why a secret is not available is the user's to know.
func TestInterceptedSecretFails(t *testing.T) {
	v := &vault{err: forage.WithHint(errors.New("/home/user/key: permission denied"), "put it there")}
	s, keys := newSecretWorld(t, v, "a.example")
	client := s.client(true)
	res, err := client.Get("https://a.example/v1")
	if status, body := answer(t, res, err); status != 502 || body != "forage: the credential for a.example is not available\n" {
		t.Errorf("%d, %q", status, body)
	}
	if e := s.denied("secret-unavailable"); e.Kind != audit.Secret || !strings.HasSuffix(e.Reason, "/home/user/key: permission denied: put it there") || e.Secret != "model" || e.Host != "a.example" {
		t.Errorf("%+v", e)
	}
	v.set(testSecret, nil) // it is read again
	res, err = client.Get("https://a.example/v1")
	if status, _ := answer(t, res, err); status != 200 || len(*keys) != 1 {
		t.Errorf("%d, %q", status, *keys)
	}
}

// A server that is not the one whose name it has doesn't get the secret.
func TestSecretNeedsItsServer(t *testing.T) {
	s, keys := newSecretWorld(t, &vault{value: testSecret}, "a.example")
	s.server, _ = certificate(t, "a.example") // by somebody whom nobody knows
	s.serveTLS(public+":443", http.HandlerFunc(teller))
	res, err := s.client(true).Get("https://a.example/v1")
	if status, _ := answer(t, res, err); status != 502 || len(*keys) > 0 {
		t.Errorf("%d, %q", status, *keys)
	}
}

// A binding allows nothing.
func TestSecretIsNoPermission(t *testing.T) {
	s, keys := newSecretWorld(t, &vault{value: testSecret}, "b.example")
	for _, path := range []string{"http://127.0.0.1:18080/model/v1"} {
		conn := s.connect(s.proxy)
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:18080\r\n\r\n", strings.TrimPrefix(path, "http://127.0.0.1:18080"))
		if status, body := get(t, bufio.NewReader(conn), "GET"); status != 403 || !strings.Contains(body, "default-deny") {
			t.Errorf("%d, %q", status, body)
		}
	}
	if len(*keys) > 0 {
		t.Errorf("%q", *keys)
	}
}

// A client that is told a base URL needs to trust no certificate.
func TestGateway(t *testing.T) {
	s, keys := newSecretWorld(t, &vault{value: testSecret}, "a.example")
	for _, tt := range []struct {
		host, path string
		status     int
		want       string
	}{
		{"127.0.0.1:18080", "/model/v1/x%2fy?beta=true", 200, "a.example /v1/x%2fy?beta=true key="},
		{"localhost:18080", "/model", 200, "a.example / key="},
		{"[::1]:18080", "/model/", 200, "a.example / key="},
		{"[::1]:18080", "/model//x", 200, "a.example //x key="},
		{"127.0.0.1:18080", "http://127.0.0.1:18080/model/v1", 200, "a.example /v1 key="},
		{"127.0.0.1", "/model/v1", 400, "this is a proxy"},
		{"127.0.0.1:80", "/model/v1", 400, "this is a proxy"},
		{"a.example:18080", "/model/v1", 400, "this is a proxy"},
		{"rebound.example:18080", "/model/v1", 400, "this is a proxy"},
		{"127.0.0.1:18080", "/unknown/v1", 400, "this is a proxy"},
		{"127.0.0.1:18080", "/", 400, "this is a proxy"},
		{"127.0.0.1:18080", "//model/v1", 400, "this is a proxy"},
	} {
		before := len(*keys)
		conn := s.connect(s.proxy)
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nX-Api-Key: %s\r\n\r\n", tt.path, tt.host, testPlaceholder)
		status, body := get(t, bufio.NewReader(conn), "GET")
		if status != tt.status || !strings.Contains(body, tt.want) || strings.Contains(body, testSecret) {
			t.Errorf("%s%s: %d, %q", tt.host, tt.path, status, body)
		}
		if asked := len(*keys) - before; (asked == 1) != (tt.status == 200) {
			t.Errorf("%s%s: the server was asked %d times", tt.host, tt.path, asked)
		}
	}
	for _, key := range *keys {
		if key != testSecret {
			t.Errorf("the server got %q", key)
		}
	}
	e := s.closed(audit.HTTP)
	if e.Host != "a.example" || e.Port != 443 || e.Path != "/v1/x%2fy" || e.Secret != "model" {
		t.Errorf("%+v", e)
	}
}

// Where the user's own machine is asked in the clear, the secret may go too; anywhere else it may
// not.
func TestSecretInTheClear(t *testing.T) {
	v := &vault{value: testSecret}
	s := newSecureWorld(t, mustPolicy(t, "restricted", "host.forage.internal:8080", "a.example:8080", "pinned.example:8080"), func(c *Config) {
		c.Resolve = map[string]netip.AddrPort{"pinned.example:8080": netip.MustParseAddrPort("127.0.0.1:9090")}
		c.Credentials = bound(t, v, "", "host.forage.internal:8080", "a.example:8080", "pinned.example:8080")
	})
	var mu sync.Mutex
	got := map[string]string{}
	server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got[r.Host] = r.Header.Get("X-Api-Key")
	})
	for _, addr := range []string{"127.0.0.1:8080", "127.0.0.1:9090", public + ":8080"} {
		s.serveHTTP(addr, server)
	}
	for _, host := range []string{"host.forage.internal", "a.example", "pinned.example"} {
		conn := s.toName(host, 8080)
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s:8080\r\nConnection: close\r\n\r\n", host)
		io.ReadAll(conn)
		proxied := s.connect(s.proxy)
		fmt.Fprintf(proxied, "GET http://%s:8080/ HTTP/1.1\r\nHost: %s:8080\r\nConnection: close\r\n\r\n", host, host)
		io.ReadAll(proxied)
	}
	mu.Lock()
	defer mu.Unlock()
	if got["host.forage.internal:8080"] != testSecret || got["pinned.example:8080"] != "" || got["a.example:8080"] != "" {
		t.Errorf("%q", got)
	}
	if e := s.denied("not-tls"); e.Host != "a.example" {
		t.Errorf("%+v", e)
	}
}

// In the clear to a bound host goes neither the secret nor anybody else's.
func TestForeignCredentialInTheClear(t *testing.T) {
	s, _ := newSecretWorld(t, &vault{value: testSecret}, "a.example")
	var got http.Header
	s.serveHTTP(public+":80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r.Header.Clone() }))
	for _, open := range []func() (net.Conn, string){
		func() (net.Conn, string) { return s.toName("a.example", 80), "/" },
		func() (net.Conn, string) { return s.connect(s.proxy), "http://a.example/" },
	} {
		conn, target := open()
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a.example\r\nAuthorization: Bearer theirs\r\nX-Api-Key: theirs\r\nX-Kept: yes\r\n\r\n", target)
		if status, _ := get(t, bufio.NewReader(conn), "GET"); status != 200 {
			t.Errorf("%d", status)
		}
		if text := fmt.Sprint(got); strings.Contains(text, "theirs") || strings.Contains(text, testSecret) || got.Get("X-Kept") != "yes" {
			t.Errorf("the server got %v", got)
		}
	}
	s.denied("foreign-credential")
}

// Credentials can be changed while requests are under way.
func TestSetCredentials(t *testing.T) {
	s, keys := newSecretWorld(t, &vault{value: testSecret}, "a.example")
	client := s.client(true)
	for i, want := range []string{testSecret, "another-secret-value-0123", ""} {
		switch i {
		case 1:
			s.engine.SetCredentials(bound(t, &vault{value: want}, "", "a.example"))
		case 2:
			s.engine.SetCredentials(nil)
		}
		res, err := client.Get("https://a.example/v1")
		if status, _ := answer(t, res, err); status != 200 || (*keys)[i] != want {
			t.Errorf("%d: the server got %q", i, *keys)
		}
	}
}

// A request is given the secret that belongs to the policy which has allowed it, even if both are
// changed before it is sent on.
func TestSetKeepsSecretsWithTheirPolicy(t *testing.T) {
	s, keys := newSecretWorld(t, &vault{value: testSecret}, "a.example")
	judged, changed := make(chan struct{}), make(chan struct{})
	s.log.setBefore(func(e audit.Event) { // a request that is judged waits until that is recorded
		if e.Kind == audit.HTTP && e.Method == "POST" && e.Reason == "" {
			close(judged)
			<-changed
		}
	})
	client := s.client(true)
	ended := make(chan int, 1)
	go func() {
		res, err := client.Post("https://a.example/v1", "text/plain", strings.NewReader("hello"))
		status, _ := answer(t, res, err)
		ended <- status
	}()
	<-judged
	next := "another-secret-value-0123"
	s.engine.Set(mustPolicy(t, "restricted", "a.example", "b.example"), bound(t, &vault{value: next}, "", "a.example"))
	close(changed)
	if status := <-ended; status != 200 || (*keys)[0] != testSecret {
		t.Errorf("%d, the server got %q", status, *keys)
	}
	res, err := client.Get("https://a.example/v1")
	if status, _ := answer(t, res, err); status != 200 || (*keys)[1] != next {
		t.Errorf("then: %d, the server got %q", status, *keys)
	}
}

// A server that tells the value from before a rotation is not passed on, also where that came
// with new credentials.
func TestRotatedSecretIsHidden(t *testing.T) {
	v := &vault{value: testSecret}
	s := newSecureWorld(t, mustPolicy(t, "restricted", "a.example"), func(c *Config) { c.Credentials = bound(t, v, "", "a.example") })
	s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "it was %s, and is %s", testSecret, r.Header.Get("X-Api-Key"))
	}))
	client := s.client(true)
	values := []string{testSecret, "another-secret-value-0123", "a-third-secret-value-4567"}
	for i, value := range values {
		if i < 2 {
			v.set(value, nil)
		} else {
			s.engine.Set(mustPolicy(t, "restricted", "a.example"), bound(t, &vault{value: value}, "", "a.example"))
		}
		res, err := client.Get("https://a.example/v1")
		if status, body := answer(t, res, err); status != 200 || !strings.HasPrefix(body, "it was ***") || strings.Contains(body, value) {
			t.Errorf("%d: %d, %q", i, status, body)
		}
	}
}
