package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forage"
	"forage/internal/audit"
	"forage/internal/config"
)

func TestTokens(t *testing.T) {
	w := newWorld(t).start()
	for name, test := range map[string]struct {
		client, token string
		status        int
	}{
		"a":              {"a", tokenA, 200},
		"no name":        {"", tokenB, 200},
		"wrong":          {"a", tokenA + "x", 407},
		"another's name": {"a", tokenB, 407},
		"none":           {"a", "", 407},
	} {
		t.Run(name, func(t *testing.T) {
			status, body, err := w.get(w.client(test.client, test.token), "/x")
			if err != nil || status != test.status || (status == 200) != (body == "upstream saw /x\n") {
				t.Errorf("got %d %q, %v; want %d", status, body, err, test.status)
			}
		})
	}
	w.wantDenial("proxy-identity: from 127.0.0.1:")
	w.wantDenial("no client has its token")
	for _, e := range append(w.events("a"), w.events("_proxy")...) {
		if strings.Contains(e.Reason+e.Path, tokenA) {
			t.Errorf("a token is in the audit log: %+v", e)
		}
	}
	if _, err := audit.VerifyFile(filepath.Join(w.dir, "audit/_proxy.audit.jsonl")); err != nil {
		t.Errorf("the service's own log: %v", err)
	}
}

// TestHeadersAreNoIdentity: what anybody may write proves nothing.
func TestHeadersAreNoIdentity(t *testing.T) {
	w := newWorld(t).start()
	for _, header := range []string{
		"X-Forwarded-User: a", "X-Forwarded-For: 127.0.0.1", "Forwarded: for=a", "X-Sandbox: a", "X-Forage-Client: a", "X-Client-Cert: a",
		"X-SSL-Client-S-DN: CN=a", "Authorization: Bearer " + tokenA, "Cookie: token=" + tokenA, "Proxy-Authenticate: Bearer " + tokenA,
	} {
		back := ask(t, w.dial(), "GET http://"+w.host()+"/x?"+tokenA+" HTTP/1.1\r\nHost: "+w.host()+"\r\n"+header+"\r\n\r\n")
		if !strings.HasPrefix(back, "HTTP/1.1 407 ") || !strings.Contains(back, "\r\nProxy-Authenticate: ") {
			t.Errorf("%s: got %q", header, back)
		}
	}
	if _, reached := w.seen.Load("/x"); reached {
		t.Error("the upstream server was asked")
	}
}

// TestTokenStaysHere: it is not sent on, however the request is.
func TestTokenStaysHere(t *testing.T) {
	w := newWorld(t).start()
	if status, _, err := w.get(w.client("a", tokenA), "/plain"); status != 200 || err != nil {
		t.Fatal(status, err)
	}
	auth := "Proxy-Authorization: Bearer " + tokenA + "\r\n"
	request := "GET http://" + w.host() + "/upgrade HTTP/1.1\r\nHost: " + w.host() + "\r\n" + auth +
		"Connection: Upgrade, Proxy-Authorization\r\nUpgrade: websocket\r\n\r\n"
	conn := w.dial()
	io.WriteString(conn, request)
	conn.Read(make([]byte, 1))
	for _, path := range []string{"/plain", "/upgrade"} {
		header, ok := w.seen.Load(path)
		if !ok {
			t.Errorf("%s did not arrive", path)
			continue
		}
		for name, values := range header.(http.Header) {
			if strings.HasPrefix(name, "Proxy-") || strings.Contains(strings.Join(values, " "), tokenA) {
				t.Errorf("%s: %s: %q was sent on", path, name, values)
			}
		}
	}
}

// TestUnixPeer: who has to run as a user is believed on a unix socket alone.
func TestUnixPeer(t *testing.T) {
	w := newWorld(t)
	me, other := os.Getuid(), os.Getuid()+1
	w.loaded.Proxy.Clients["a"] = config.ProxyClient{Template: "a", Token: &forage.SecretSource{Env: "TOKEN_A"}, PeerUID: &me}
	w.loaded.Proxy.Clients["b"] = config.ProxyClient{Template: "b", Token: &forage.SecretSource{Env: "TOKEN_B"}, PeerUID: &other}
	w.start()
	get := func(token string) string {
		return "GET http://" + w.host() + "/u HTTP/1.1\r\nHost: " + w.host() + "\r\nConnection: close\r\nProxy-Authorization: Bearer " + token + "\r\n\r\n"
	}
	unix := func() net.Conn {
		conn, err := net.Dial("unix", w.dir+"/p.sock")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	if back := ask(t, unix(), get(tokenA)); !strings.HasPrefix(back, "HTTP/1.1 200 ") {
		t.Errorf("the right user: %q", back)
	}
	if back := ask(t, unix(), get(tokenB)); !strings.HasPrefix(back, "HTTP/1.1 407 ") {
		t.Errorf("another user: %q", back)
	}
	if back := ask(t, w.dial(), get(tokenA)); !strings.HasPrefix(back, "HTTP/1.1 407 ") {
		t.Errorf("over TCP: %q", back)
	}
}

// TestSockets: one that is in use, and what is no socket, stays; our own goes with us.
func TestSockets(t *testing.T) {
	w := newWorld(t)
	path := w.dir + "/p.sock"
	writeFile(t, path, []byte("somebody's file"))
	if _, err := start(w.options()); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Fatalf("a file: %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "somebody's file" {
		t.Fatalf("the file is now %q", text)
	}
	os.Remove(path)
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := start(w.options()); err == nil || !strings.Contains(err.Error(), "a program listens on") {
		t.Fatalf("a socket in use: %v", err)
	}
	other.(*net.UnixListener).SetUnlinkOnClose(false)
	other.Close()
	s, err := start(w.options()) // what a crash left is replaced
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

// TestForbidden: what no sandbox gets, no client gets.
func TestForbidden(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/config.toml", []byte(`
[proxy]
listen = ["unix:p.sock"]
auditDir = "audit"
[proxy.clients.a]
template = "open"
token = { env = "TOKEN_A" }
[templates.open]
network = "full"
[forbid]
networks = ["full"]
`))
	options := newWorld(t).options()
	options.Load = func() (*config.Config, error) {
		return config.Load(config.Env{UID: 1000, Home: "/nonexistent", File: dir + "/config.toml", SystemDir: dir})
	}
	if s, err := start(options); !errors.Is(err, forage.ErrDenied) || !strings.Contains(err.Error(), "proxy.clients.a: template open: ") {
		t.Errorf("got %v, %v", s, err)
	}
}

// TestOwnAuthority: each client gets the certificate of its own authority, and not another's.
func TestOwnAuthority(t *testing.T) {
	w := newWorld(t)
	a := w.loaded.Proxy.Clients["a"]
	a.CAFile = w.dir + "/a.pem"
	w.loaded.Proxy.Clients["a"] = a
	w.start()
	own := func(client, token, url string) (int, string) {
		res, err := w.client(client, token).Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(text)
	}
	_, ofA := own("a", tokenA, "http://forage.internal/ca.pem")
	_, ofB := own("b", tokenB, "http://FORAGE.internal:80/ca.pem")
	written, err := os.ReadFile(a.CAFile)
	if err != nil || ofA != string(written) || !strings.HasPrefix(ofA, "-----BEGIN CERTIFICATE-----") || !strings.HasPrefix(ofB, "-----BEGIN") || ofA == ofB {
		t.Errorf("a: %q, written %q (%v), b: %q", ofA, written, err, ofB)
	}
	if strings.Contains(ofA, "PRIVATE") {
		t.Error("the key is told")
	}
	if status, body := own("a", "wrong-token-of-nobody", "http://forage.internal/ca.pem"); status != 407 || strings.Contains(body, "BEGIN") {
		t.Errorf("a stranger: %d %q", status, body)
	}
	if status, _ := own("a", tokenA, "http://forage.internal/"); status != 404 {
		t.Errorf("something else: %d", status)
	}
	if status, _ := own("a", tokenA, "http://forage.internal.example/ca.pem"); status != 403 {
		t.Errorf("a name that begins like ours: %d", status)
	}
}
