package egress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"forage"
	"forage/internal/policy"
)

// A method or a path that a field or the query gives instead of the request's
// own is judged like that: on every way in nothing gets further by saying it otherwise.
func TestOtherReadings(t *testing.T) {
	s := newSecureWorld(t, looked(t,
		forage.Rule{Host: "a.example", Methods: []string{"GET", "POST"}, Paths: []string{"/ok/**"}},
		forage.Rule{Host: "a.example", Paths: []string{"/ok/admin"}, Deny: true},
		forage.Rule{Host: "a.example", Git: &forage.GitRule{Repos: []string{"acme/*"}, Push: []string{"agent/*"}}}), nil)
	site := &site{}
	s.serveTLS(public+":443", site)
	s.serveHTTP(public+":80", site)
	for _, tt := range []struct {
		path, field string
		status      int
	}{
		{"/ok/x", "X-HTTP-Method-Override: DELETE", 403},
		{"/ok/x", "x-http-method-override: delete", 403},
		{"/ok/x", "X_HTTP_Method_Override: DELETE", 403},
		{"/ok/x", "X-HTTP-Method-Override: POST, DELETE", 403},
		{"/ok/x", "X-HTTP-Method: PATCH", 403},
		{"/ok/x", "X-Method-Override: PUT", 403},
		{"/ok/x", "X-HTTP-Method-Override: POST", 200},
		{"/ok/x?_method=DELETE", "", 403},
		{"/ok/x?_method[]=DELETE", "", 403},
		{"/ok/x?%20.method%5B0%5D=DELETE", "", 403},
		{"/ok/x?[method=DELETE", "", 403},
		{"/ok/x?_method%00x=DELETE", "", 403},
		{"/ok/x?a=b&%5fmethod=delete", "", 403},
		{"/ok/x?a=b;_method=delete", "", 403},
		{"/ok/x?$httpMethod=PUT", "", 403},
		{"/ok/x?method=anything", "", 200},
		{"/ok/x?_method=post", "", 200},
		{"/ok/x", "X-Original-URL: /other", 403},
		{"/ok/x", "X-Original-URL: other", 403},
		{"/ok/x", "X-Original-Path: /other", 403},
		{"/ok/x", "Destination: https://a.example/other", 403},
		{"/ok/x", "Destination: /ok/y", 200},
		{"/ok/x", "X-Rewrite-URL: /ok/admin", 403},
		{"/ok/x", "X-Rewrite-Url: https://a.example/ok/%61dmin?x", 403},
		{"/ok/x", "X_Original_URL: /ok/../other", 403},
		{"/ok/x", "X-Original-URL: /acme/x.git/git-receive-pack", 403},
		{"/ok/x", "X-Original-URL: /ok/y?z", 200},
		{"/ok/x", "X-Forwarded-Host: internal.example", 200}, // goes no further
		{"/ok/x", "X-Host: internal.example", 200},
		{"/ok/x", "X_Forwarded_Host: internal.example", 200},
	} {
		field := tt.field
		if field != "" {
			field += "\r\n"
		}
		for how, open := range map[string]func() (io.Writer, *bufio.Reader, string){
			"inside TLS": func() (io.Writer, *bufio.Reader, string) {
				conn, r := s.secure("a.example")
				return conn, r, tt.path
			},
			"proxy": func() (io.Writer, *bufio.Reader, string) {
				conn := s.connect(s.proxy)
				return conn, bufio.NewReader(conn), "http://a.example" + tt.path
			},
		} {
			before := len(site.requests())
			conn, r, target := open()
			fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a.example\r\n%s\r\n", target, field)
			status, body := get(t, r, "GET")
			if status != tt.status || status == 403 && !strings.Contains(body, "servers may read the request as") {
				t.Errorf("%s, %s, %s: %d, %q", how, tt.path, tt.field, status, body)
			}
			if asked := len(site.requests()) - before; (asked == 1) != (tt.status == 200) {
				t.Errorf("%s, %s, %s: the server was asked %d times", how, tt.path, tt.field, asked)
			}
		}
		if name, value, ok := strings.Cut(tt.field, ": "); ok && !strings.Contains(name, "_") {
			r, _ := http.NewRequest("GET", "https://a.example"+tt.path, nil)
			r.Header.Set(name, value)
			res, err := s.client(true).Do(r)
			if status, body := answer(t, res, err); status != tt.status {
				t.Errorf("HTTP/2, %s: %d, %q", tt.field, status, body)
			}
		}
	}
	s.denied(policy.RuleDefaultDeny)
}

// What a request may also be read as is judged again when the policy changes, like the request.
func TestSetPolicyJudgesOtherReadings(t *testing.T) {
	for _, field := range []string{"X-Original-Url: /other", "X-Http-Method-Override: DELETE"} {
		s := newSecureWorld(t, looked(t, inspected("a.example")), nil)
		s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}))
		r, _ := http.NewRequest("GET", "https://a.example/ok/x", nil)
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Set(name, value)
		res, err := s.client(true).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		s.engine.SetPolicy(looked(t, forage.Rule{Host: "a.example", Methods: []string{"GET"}, Paths: []string{"/ok/**"}}))
		if e := s.denied(policy.RuleDefaultDeny); !strings.Contains(e.Reason, "changed: servers may read the request as") {
			t.Errorf("%s: %+v", field, e)
		}
		if _, err := io.ReadAll(res.Body); err == nil {
			t.Errorf("%s: it goes on", field)
		}
	}
}

// Fields that name another host stay here, in every spelling.
func TestOtherHostsStayInside(t *testing.T) {
	s := newSecureWorld(t, looked(t, inspected("a.example")), nil)
	var got http.Header
	s.serveTLS(public+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r.Header.Clone() }))
	conn, r := s.secure("a.example")
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-Host: b.example\r\nX_Forwarded_Host: b.example\r\nForwarded: host=b.example\r\n"+
		"X-Host: b.example\r\nX-Original-Host: b.example\r\nX-HTTP-Host-Override: b.example\r\nX-Forwarded-Server: b.example\r\nContent_Length: b.example\r\nTransfer_Encoding: b.example\r\nX-Kept: yes\r\n\r\n")
	get(t, r, "GET")
	if text := fmt.Sprint(got); strings.Contains(text, "b.example") || got.Get("X-Kept") != "yes" {
		t.Errorf("the server got %v", got)
	}
}

// A name that is asked of an address is judged in every way that the request may be read, too.
func TestReadingsOfANameAtAnAddress(t *testing.T) {
	p, err := policy.Compile(forage.Network{Mode: forage.NetworkFull, Rules: []forage.Rule{{Host: "a.example", Methods: []string{"DELETE"}, Deny: true}}})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, p, nil)
	w.serve(public+":80", func(conn net.Conn) {
		defer conn.Close()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			t.Error("the server was asked")
		}
	})
	conn := w.to(public + ":80")
	fmt.Fprint(conn, "POST /v1 HTTP/1.1\r\nHost: a.example\r\nX-HTTP-Method-Override: DELETE\r\nContent-Length: 0\r\n\r\n")
	expectReset(t, conn)
}
