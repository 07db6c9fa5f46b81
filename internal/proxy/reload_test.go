package proxy

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forage"
	"forage/internal/config"
)

// stream is a request for /stream that is under way.
type stream struct {
	t     *testing.T
	body  *bufio.Reader
	lines *io.PipeWriter
}

// startStream begins a request that gets a line back for each that it sends.
func (w *world) startStream(c *http.Client) *stream {
	w.t.Helper()
	read, lines := io.Pipe()
	w.t.Cleanup(func() { lines.Close() })
	request, err := http.NewRequest(http.MethodPost, "http://"+w.host()+"/stream", read)
	if err != nil {
		w.t.Fatal(err)
	}
	res, err := c.Do(request)
	if err != nil || res.StatusCode != http.StatusOK {
		w.t.Fatalf("%v, %v", res, err)
	}
	w.t.Cleanup(func() { res.Body.Close() })
	s := &stream{w.t, bufio.NewReader(res.Body), lines}
	if line, err := s.body.ReadString('\n'); line != "tick\n" {
		w.t.Fatalf("the stream begins with %q, %v", line, err)
	}
	return s
}

// tick sends a line and waits for the answer.
func (s *stream) tick() error {
	if _, err := io.WriteString(s.lines, "x\n"); err != nil {
		return err
	}
	line, err := s.body.ReadString('\n')
	if err == nil && line != "tick\n" {
		err = errors.New(line)
	}
	return err
}

// TestReloadKeepsStreams: what is under way goes on for clients that stay as they were. A client
// that changes is judged anew.
func TestReloadKeepsStreams(t *testing.T) {
	w := newWorld(t).start()
	c := w.client("a", tokenA)
	s, ofB := w.startStream(c), w.startStream(w.client("b", tokenB))
	w.change(func(c *config.Config) {
		a := c.Templates["a"]
		a.Network.Rules = []forage.Rule{{Host: w.host(), Paths: []string{"/stream", "/after"}}}
		c.Templates["a"] = a
		c.Proxy.Clients["new"] = config.ProxyClient{Template: "b", Token: &forage.SecretSource{Env: "TOKEN_NEW"}}
		w.env["TOKEN_NEW"] = "nnnnnnnnnnnnnnnn-token-of-new"
	})
	if err := s.tick(); err == nil {
		t.Error("a stream of the client that has changed goes on")
	}
	for path, want := range map[string]int{"/before": 403, "/after": 200} {
		if status, body, err := w.get(w.client("a", tokenA), path); status != want || err != nil {
			t.Errorf("%s: %d %q, %v; want %d", path, status, body, err, want)
		}
	}
	if status, _, err := w.get(w.client("new", w.env["TOKEN_NEW"]), "/x"); status != 200 || err != nil {
		t.Errorf("the new client: %d, %v", status, err)
	}
	if err := ofB.tick(); err != nil {
		t.Errorf("the other client's: %v", err)
	}
}

// TestReloadEndsWhatIsNotAllowed: a stream that the new policy denies is cut.
func TestReloadEndsWhatIsNotAllowed(t *testing.T) {
	w := newWorld(t).start()
	s, ofB := w.startStream(w.client("a", tokenA)), w.startStream(w.client("b", tokenB))
	w.change(func(c *config.Config) {
		a := c.Templates["a"]
		a.Network.Allow = nil
		c.Templates["a"] = a
	})
	if line, err := s.body.ReadString('\n'); err == nil {
		t.Errorf("it goes on with %q", line)
	}
	if err := ofB.tick(); err != nil {
		t.Errorf("the other client's: %v", err)
	}
}

// TestRemovedClientIsCut: its connections end, its token is worth nothing, and those of others go
// on.
func TestRemovedClientIsCut(t *testing.T) {
	w := newWorld(t).start()
	s, ofB := w.startStream(w.client("a", tokenA)), w.startStream(w.client("b", tokenB))
	life := w.s.clients["a"].life
	w.change(func(c *config.Config) { delete(c.Proxy.Clients, "a") })
	if life.Err() == nil {
		t.Error("its secrets may still be being read")
	}
	if line, err := s.body.ReadString('\n'); err == nil {
		t.Errorf("it goes on with %q", line)
	}
	if status, _, err := w.get(w.client("a", tokenA), "/x"); status != 407 || err != nil {
		t.Errorf("its token: %d, %v", status, err)
	}
	if err := ofB.tick(); err != nil {
		t.Errorf("the other client's: %v", err)
	}
	// It may come back, and finds its audit log as it was.
	before := len(w.events("a"))
	w.change(func(c *config.Config) {
		c.Proxy.Clients["a"] = config.ProxyClient{Template: "a", Token: &forage.SecretSource{Env: "TOKEN_A"}}
	})
	if status, _, err := w.get(w.client("a", tokenA), "/x"); status != 200 || err != nil {
		t.Errorf("when it is back: %d, %v", status, err)
	}
	if after := len(w.events("a")); after <= before {
		t.Errorf("its log had %d lines, and has %d", before, after)
	}
}

// TestTokenIsChanged: the old one is not taken any more, on connections that it began neither;
// streams go on.
func TestTokenIsChanged(t *testing.T) {
	w := newWorld(t)
	path := w.dir + "/token"
	writeFile(t, path, []byte(tokenA+"\n"))
	w.loaded.Proxy.Clients["a"] = config.ProxyClient{Template: "a", Token: &forage.SecretSource{File: path}}
	w.start()
	old := w.client("a", tokenA)
	s := w.startStream(old)
	conn := w.dial()
	io.WriteString(conn, w.request("/x", tokenA, ""))
	conn.Read(make([]byte, 1))
	writeFile(t, path, []byte("another-token-of-a-client"))
	w.change(func(*config.Config) {})
	if back := ask(t, conn, w.request("/y", tokenA, "")); !strings.Contains(back, "407 Proxy") {
		t.Errorf("on the connection that it began: %q", back)
	}
	if status, _, err := w.get(old, "/y"); status != 407 || err != nil {
		t.Errorf("on a new one: %d, %v", status, err)
	}
	if status, _, err := w.get(w.client("a", "another-token-of-a-client"), "/z"); status != 200 || err != nil {
		t.Errorf("the new one: %d, %v", status, err)
	}
	if err := s.tick(); err != nil {
		t.Errorf("the stream: %v", err)
	}
}

// TestWrongConfigurationChangesNothing: whatever is wrong with it, and however late that is found.
func TestWrongConfigurationChangesNothing(t *testing.T) {
	w := newWorld(t).start()
	s := w.startStream(w.client("a", tokenA))
	for name, test := range map[string]struct {
		change func(*config.Config)
		want   string
	}{
		"no proxy":       {func(c *config.Config) { c.Proxy = nil }, "no [proxy] any more"},
		"another folder": {func(c *config.Config) { c.Proxy.AuditDir = w.dir + "/other" }, "auditDir can't be changed"},
		"no such token": {func(c *config.Config) {
			c.Proxy.Clients["x"] = config.ProxyClient{Template: "a", Token: &forage.SecretSource{Env: "NONE"}}
		}, "proxy.clients.x.token: the variable NONE"},
		"one token for two": {func(c *config.Config) {
			c.Proxy.Clients["x"] = config.ProxyClient{Template: "a", Token: &forage.SecretSource{Env: "TOKEN_A"}}
		}, "the token of a too"},
		"no certificate": {func(c *config.Config) {
			c.Proxy.Listen = append([]config.ProxyListen{{Kind: config.ListenTLS, Address: "127.0.0.1:0"}}, c.Proxy.Listen...)
		}, "proxy.certificate"},
		"taken address": {func(c *config.Config) {
			c.Proxy.Listen = append([]config.ProxyListen{{Kind: config.ListenTCP, Address: w.upstream.Listener.Addr().String()}}, c.Proxy.Listen...)
			delete(c.Proxy.Clients, "b")
			c.Proxy.Clients["y"] = config.ProxyClient{Template: "a", Token: &forage.SecretSource{Env: "TOKEN_Y"}}
			w.env["TOKEN_Y"] = "yyyyyyyyyyyyyyyyyyyyyy"
		}, "address already in use"},
		"taken address, with authorities to publish": {func(c *config.Config) {
			c.Proxy.Listen = append([]config.ProxyListen{{Kind: config.ListenTCP, Address: w.upstream.Listener.Addr().String()}}, c.Proxy.Listen...)
			a := c.Proxy.Clients["a"]
			a.CAFile = w.dir + "/a.pem"
			c.Proxy.Clients["a"] = a
			c.Proxy.Clients["z"] = config.ProxyClient{Template: "a", Token: &forage.SecretSource{Env: "TOKEN_Z"}, CAFile: w.dir + "/z.pem"}
			w.env["TOKEN_Z"] = "zzzzzzzzzzzzzzzzzzzzzz"
		}, "address already in use"},
		"no such secret": {func(c *config.Config) {
			t := c.Templates["a"]
			t.Secrets = []string{"nothing"}
			c.Templates["a"] = t
		}, "the secret nothing is not configured"},
		"wrapped secrets": {func(c *config.Config) {
			t := c.Templates["a"]
			t.SecretMode = forage.SecretsWrapped
			c.Templates["a"] = t
		}, `secretMode = "wrapper"`},
	} {
		w.mu.Lock()
		good := w.loaded
		w.mu.Unlock()
		w.change(test.change)
		w.wantDenial(test.want)
		for token, want := range map[string]int{tokenA: 200, tokenB: 200, "yyyyyyyyyyyyyyyyyyyyyy": 407} {
			if status, _, err := w.get(w.client("", token), "/x"); status != want || err != nil {
				t.Errorf("%s: %s: %d, %v", name, token, status, err)
			}
		}
		if err := s.tick(); err != nil {
			t.Fatalf("%s: the stream: %v", name, err)
		}
		w.mu.Lock()
		w.loaded = good
		w.mu.Unlock()
	}
	for _, name := range []string{"a.pem", "z.pem"} {
		if _, err := os.Stat(filepath.Join(w.dir, name)); err == nil {
			t.Errorf("%s is published", name)
		}
	}
	// What was made for it is gone: y can come to be.
	if _, err := os.Stat(filepath.Join(w.dir, "other")); err == nil {
		t.Error("the other folder was made")
	}
	w.change(func(c *config.Config) {
		c.Proxy.Clients["y"] = config.ProxyClient{Template: "a", Token: &forage.SecretSource{Env: "TOKEN_Y"}}
	})
	if status, _, err := w.get(w.client("y", "yyyyyyyyyyyyyyyyyyyyyy"), "/x"); status != 200 || err != nil {
		t.Errorf("y: %d, %v", status, err)
	}
}

// TestListenersChange: new ones are opened, old ones closed; connections that came by them go on.
func TestListenersChange(t *testing.T) {
	w := newWorld(t).start()
	s := w.startStream(w.client("a", tokenA))
	old := w.address(config.ListenTCP)
	w.change(func(c *config.Config) {
		c.Proxy.Listen = []config.ProxyListen{{Kind: config.ListenTCP, Address: "127.0.0.2:0"}}
	})
	if status, _, err := w.get(w.client("a", tokenA), "/x"); status != 200 || err != nil || w.address(config.ListenTCP) == old {
		t.Errorf("at the new address: %d, %v", status, err)
	}
	if err := s.tick(); err != nil {
		t.Errorf("the stream: %v", err)
	}
	if _, err := os.Lstat(w.dir + "/p.sock"); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

// TestFactsChange: what an engine can't change makes another one, which counts on and keeps the
// authority.
func TestFactsChange(t *testing.T) {
	w := newWorld(t).start()
	s := w.startStream(w.client("a", tokenA))
	authority := w.s.clients["a"].authority
	w.change(func(c *config.Config) {
		a := c.Templates["a"]
		a.Network.Allow = []string{"pinned.example:80"}
		c.Templates["a"] = a
		c.Network.Resolve = map[string]string{"pinned.example:80": w.upstream.Listener.Addr().String()}
	})
	if line, err := s.body.ReadString('\n'); err == nil {
		t.Errorf("the stream goes on with %q", line)
	}
	res, err := w.client("a", tokenA).Get("http://pinned.example/pinned")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", res, err)
	}
	res.Body.Close()
	if w.s.clients["a"].authority != authority {
		t.Error("the authority is another")
	}
}
