package egress

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"forage"
	"forage/internal/egress/credential"
	"forage/internal/secrets"
)

// leaked says whether b has the secret in it, in any form that is read without guessing.
func leaked(b []byte) bool {
	for _, form := range []string{testSecret, base64.StdEncoding.EncodeToString([]byte(testSecret)), base64.RawURLEncoding.EncodeToString([]byte(testSecret)), url.QueryEscape(testSecret)} {
		if bytes.Contains(b, []byte(form)) {
			return true
		}
	}
	return false
}

// taped keeps all that is read from a connection.
type taped struct {
	net.Conn
	got *bytes.Buffer
}

func (c taped) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.got.Write(p[:n])
	return n, err
}

// requestsInside are ways to send a request to a.example, as text; each gives what came back.
func requestsInside(s *secureWorld) map[string]func(head string, body string) []byte {
	send := func(conn net.Conn, text string) []byte {
		got := &bytes.Buffer{}
		tape := taped{conn, got}
		go io.WriteString(tape, text)
		io.Copy(io.Discard, tape)
		conn.Close()
		return got.Bytes()
	}
	return map[string]func(head, body string) []byte{
		"inside TLS": func(head, body string) []byte {
			conn, _ := s.secure("a.example")
			return send(conn, head+"Connection: close\r\n\r\n"+body)
		},
		"gateway": func(head, body string) []byte {
			in := strings.NewReplacer(" /", " /model/", "Host: a.example", "Host: 127.0.0.1:18080").Replace(head)
			return send(s.connect(s.proxy), in+"Connection: close\r\n\r\n"+body)
		},
	}
}

// What an agent says about the fields of a request does not take the secret away, nor
// does it add to it; and no method makes a server show it.
func TestFieldsDoNotMoveTheSecret(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example")), func(c *Config) {
		c.Credentials = bound(t, &vault{value: testSecret}, "model", "a.example")
	})
	rec := &recorder{}
	s.serve(public+":443", rec.secure(s.server))
	for way, send := range requestsInside(s) {
		for name, head := range map[string]string{
			"Connection: x-api-key":     "GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: x-api-key, authorization\r\n",
			"Connection in two lines":   "GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: X-Api-Key\r\nConnection: keep-alive\r\n",
			"Keep-Alive and Proxy":      "GET /x HTTP/1.1\r\nHost: a.example\r\nKeep-Alive: x-api-key\r\nProxy-Connection: x-api-key\r\n",
			"TE":                        "GET /x HTTP/1.1\r\nHost: a.example\r\nTE: trailers, x-api-key\r\n",
			"Upgrade":                   "GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade, X-Api-Key\r\nUpgrade: websocket\r\n",
			"Trailer":                   "POST /x HTTP/1.1\r\nHost: a.example\r\nTrailer: X-Api-Key\r\nContent-Length: 0\r\n",
			"Max-Forwards":              "OPTIONS /x HTTP/1.1\r\nHost: a.example\r\nMax-Forwards: 0\r\n",
			"Vary and Cache":            "GET /x HTTP/1.1\r\nHost: a.example\r\nVary: x-api-key\r\nCache-Control: no-cache=\"x-api-key\"\r\n",
			"Access-Control":            "OPTIONS /x HTTP/1.1\r\nHost: a.example\r\nOrigin: https://b.example\r\nAccess-Control-Request-Headers: x-api-key\r\n",
			"the key twice":             "GET /x HTTP/1.1\r\nHost: a.example\r\nX-Api-Key: attackers-own-key\r\nx-api-key: attackers-own-key\r\n",
			"the key in CGI's way":      "GET /x HTTP/1.1\r\nHost: a.example\r\nX_Api_Key: attackers-own-key\r\n",
			"keys everywhere":           "GET /x?api_key=attackers-own-key&access_token=attackers-own-key HTTP/1.1\r\nHost: a.example\r\nAuthorization: Bearer attackers-own-key\r\nCookie: session=attackers-own-key\r\nPrivate-Token: attackers-own-key\r\nX-Goog-Api-Key: attackers-own-key\r\nProxy-Authorization: Basic attackers-own-key\r\nSec-WebSocket-Protocol: openai-insecure-api-key.attackers-own-key\r\n",
			"the placeholder elsewhere": "GET /x?q=" + testPlaceholder + " HTTP/1.1\r\nHost: a.example\r\nX-Other: " + testPlaceholder + "\r\nUser-Agent: " + testPlaceholder + "\r\n",
		} {
			rec.mu.Lock()
			rec.conns = nil
			rec.mu.Unlock()
			s.engine.SetPolicy(looked(t, inspected("a.example"))) // another connection to the server
			answer := send(head, "")
			rec.mu.Lock()
			var got []byte
			for _, conn := range rec.conns {
				got = append(got, conn.Bytes()...)
			}
			rec.mu.Unlock()
			if n := bytes.Count(got, []byte("X-Api-Key: "+testSecret+"\r\n")); n != 1 || bytes.Count(got, []byte(testSecret)) != 1 {
				t.Errorf("%s, %s: the server got the secret %d times: %q; the answer is %q", way, name, n, got, answer)
			}
			if bytes.Contains(got, []byte("attackers-own-key")) {
				t.Errorf("%s, %s: the server got %q", way, name, got)
			}
			if leaked(answer) {
				t.Errorf("%s, %s: %q", way, name, answer)
			}
		}
	}
}

// TRACE has a server answer with the request as it arrived.
func TestTraceShowsNoSecret(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example")), func(c *Config) {
		c.Credentials = bound(t, &vault{value: testSecret}, "model", "a.example")
	})
	asked := make(chan string, 10)
	s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + r.Header.Get("X-Api-Key")
		w.Header().Set("Content-Type", "message/http")
		fmt.Fprintf(w, "%s %s %s\r\n", r.Method, r.RequestURI, r.Proto)
		r.Header.Write(w)
	}), "http/1.1")
	for way, send := range requestsInside(s) {
		for _, method := range []string{"TRACE", "TRACK", "DEBUG"} {
			got := send(method+" /x HTTP/1.1\r\nHost: a.example\r\n", "")
			if leaked(got) || !bytes.Contains(got, []byte(method+" /x")) {
				t.Errorf("%s: %q", way, got)
			}
			if was := <-asked; was != method+testSecret {
				t.Errorf("%s: the server was asked %q", way, was)
			}
		}
	}
}

// reflections are forms in which a server may say what it was told.
func reflections() map[string]func(string) string {
	return map[string]func(string) string{
		"plain":          func(s string) string { return s },
		"twice":          func(s string) string { return s + s },
		"nearly twice":   func(s string) string { return s[:len(s)-1] + s },
		"base64":         func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"base64, moved":  func(s string) string { return base64.StdEncoding.EncodeToString([]byte("x" + s)) },
		"base64, by two": func(s string) string { return base64.StdEncoding.EncodeToString([]byte("xx" + s)) },
		"base64 of URLs": func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
		"percent":        url.QueryEscape,
		"JSON":           func(s string) string { return fmt.Sprintf("{\"k\":%q}", s) },
	}
}

// An answer that has the secret in it, wherever and in whatever pieces, does not get inside.
func TestReflections(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example")), func(c *Config) {
		c.Credentials = bound(t, &vault{value: testSecret}, "model", "a.example")
	})
	var mu sync.Mutex
	form := func(s string) string { return s }
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		text := form(r.Header.Get("X-Api-Key"))
		mu.Unlock()
		w.Header().Set("Link", "<"+text+">")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("X-Echo", text)
		w.Header().Set("Set-Cookie", "k="+text)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Trailer", "X-End")
		fmt.Fprintf(w, "data: %s\n\n", text)
		w.(http.Flusher).Flush()
		for i := range text {
			io.WriteString(w, text[i:i+1])
			w.(http.Flusher).Flush()
		}
		io.WriteString(w, "\ndata: end\n\n")
		w.Header().Set("X-End", text)
	})
	for _, outside := range [][]string{nil, {"http/1.1"}} {
		s.serveTLS(public+":443", handler, outside...)
		s.engine.SetPolicy(looked(t, inspected("a.example")))
		for name, as := range reflections() {
			mu.Lock()
			form = as
			mu.Unlock()
			needle := as(testSecret)
			if strings.HasPrefix(name, "base64, ") { // its first and last characters depend on what is beside it
				needle = needle[4 : len(needle)-4]
			}
			got := map[string][]byte{}
			for way, send := range requestsInside(s) {
				got[way] = send("GET /x HTTP/1.1\r\nHost: a.example\r\n", "")
			}
			res, err := s.client(true).Get("https://a.example/")
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			got["HTTP/2"] = fmt.Appendf(body, "%v %v %v", res.Header, res.Trailer, err)
			for way, text := range got {
				if bytes.Contains(text, []byte(needle)) || leaked(text) {
					t.Errorf("%s, %s, outside %v: %q", name, way, outside, text)
				}
				if !bytes.Contains(text, []byte("data: end")) {
					t.Errorf("%s, %s: the end is missing: %q", name, way, text)
				}
			}
		}
	}
}

// A redirect is the agent's to follow, and the secret does not follow it.
func TestRedirectsGetNoSecret(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example"), inspected("b.example")), func(c *Config) {
		c.Credentials = bound(t, &vault{value: testSecret}, "", "a.example")
	})
	var mu sync.Mutex
	var got []string
	s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got = append(got, fmt.Sprintf("%s %s %v", r.Host, r.RequestURI, r.Header))
		mu.Unlock()
		if r.Host == "a.example" {
			status := http.StatusTemporaryRedirect
			fmt.Sscanf(r.URL.Path, "/%d", &status)
			http.Redirect(w, r, "https://b.example/?k="+r.Header.Get("X-Api-Key"), status)
		}
	}))
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, http2 := range []bool{false, true} {
			r, _ := http.NewRequest("POST", fmt.Sprintf("https://a.example/%d", status), strings.NewReader("x"))
			r.Header.Set("X-Api-Key", testPlaceholder)
			res, err := s.client(http2).Do(r)
			answer(t, res, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, request := range got {
		if strings.HasPrefix(request, "b.example") && leaked([]byte(request)) {
			t.Error(request)
		}
	}
	if len(got) != 20 {
		t.Errorf("the servers were asked %d times: %q", len(got), got)
	}
}

// Each binding's secret is for its host alone, whatever placeholder is sent where.
func TestPlaceholdersOfOthers(t *testing.T) {
	const otherSecret, otherPlaceholder = "other-real-thing-9876543210", "other-placeholder-9876543210"
	set, err := credential.Compile([]forage.Binding{
		{Secret: "model", Placeholder: testPlaceholder, Uses: []forage.SecretUse{{Hosts: []string{"a.example"}, Place: forage.PlaceReplace, Name: "X-Api-Key"}}},
		{Secret: "other", Placeholder: otherPlaceholder, Uses: []forage.SecretUse{{Hosts: []string{"b.example"}, Place: forage.PlaceBearer}}},
	}, map[string]secrets.Source{"model": &vault{value: testSecret}, "other": &vault{value: otherSecret}})
	if err != nil {
		t.Fatal(err)
	}
	s := newSecureWorld(t, looked(t, inspected("a.example"), inspected("b.example"), inspected("api.anthropic.com")), func(c *Config) { c.Credentials = set })
	var mu sync.Mutex
	got := map[string]string{}
	s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got[r.Host] += fmt.Sprintf("%s %v %s %v", r.RequestURI, r.Header, body, r.Trailer)
	}))
	for _, host := range []string{"a.example", "b.example", "api.anthropic.com"} {
		for _, http2 := range []bool{false, true} {
			r, _ := http.NewRequest("POST", "https://"+host+"/"+testPlaceholder+"?k="+otherPlaceholder, io.NopCloser(strings.NewReader(testPlaceholder+otherPlaceholder)))
			r.Header.Set("X-Api-Key", testPlaceholder)
			r.Header.Set("Authorization", "Bearer "+otherPlaceholder)
			r.Header.Set("X-Both", testPlaceholder+otherPlaceholder)
			r.Trailer = http.Header{"X-Api-Key": {testPlaceholder}, "X-T": {otherPlaceholder}}
			res, err := s.client(http2).Do(r)
			answer(t, res, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for host, want := range map[string][2]int{"a.example": {2, 0}, "b.example": {0, 2}, "api.anthropic.com": {}} {
		if n := [2]int{strings.Count(got[host], testSecret), strings.Count(got[host], otherSecret)}; n != want {
			t.Errorf("%s got the secrets %v times: %s", host, n, got[host])
		}
	}
}
