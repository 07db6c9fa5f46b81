package web

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"forage"
	"forage/internal/audit"
	"forage/internal/guest/guestclient"
	"forage/internal/term"
	"forage/internal/testprogram"
)

var program string // forage-ctl, for the tests in a browser

func TestMain(m *testing.M) { os.Exit(testprogram.Main(m, &program)) }

// fake are sandboxes that remember what was asked of them.
type fake struct {
	mu       sync.Mutex
	commands []string
	dropped  map[string]string
	recorded int
	lists    int
	rows     []Row
	folder   string
}

func (f *fake) List(context.Context) ([]Row, []string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	return f.rows, nil, nil
}
func (f *fake) Refusals(context.Context, string) ([]Refusal, error) {
	return []Refusal{{Text: "a.example:443", Allow: "a.example"}}, nil
}
func (f *fake) Review(context.Context, string) ([]Part, []string, error) { return nil, nil, nil }
func (f *fake) Apply(_ context.Context, name string, chosen []Chosen, dryRun bool) (string, error) {
	return f.Run(fmt.Sprint("apply ", name, " ", chosen, " ", dryRun))
}
func (f *fake) Loses(context.Context, string) (string, error) { return "1 commit", nil }
func (f *fake) Choices() (Choices, error) {
	return Choices{Templates: []Template{{"claude", []string{"claude"}}, {"shell", nil}}, Home: "/home/me"}, nil
}
func (f *fake) Drop(_ context.Context, _, file string, content io.Reader) (string, error) {
	text, err := io.ReadAll(content)
	if err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dropped == nil {
		f.dropped = map[string]string{}
	}
	f.dropped[file] = string(text)
	return "/workspace/" + file, nil
}
func (f *fake) Record(context.Context, string, audit.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recorded++
	return forage.Errorf(forage.ErrNotFound, "no sandbox")
}
func (f *fake) Connect(context.Context, string) (*guestclient.Client, error) {
	return nil, errors.New("not recorded")
}
func (f *fake) Screen(string) func(io.Writer) *term.Controls {
	return func(out io.Writer) *term.Controls { return &term.Controls{Out: out} }
}
func (f *fake) AttachCommand(bool) []string { return []string{"tmux"} }
func (f *fake) Run(args ...string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commands = append(f.commands, strings.Join(args, "|"))
	return "done", nil
}

// site is a board that is served, and a browser that is logged in.
type site struct {
	*fake
	server      *Server
	url         string // as a browser has it
	port        string // with a colon
	cookie, key string
}

func newSite(t *testing.T) *site {
	t.Helper()
	f := &fake{folder: t.TempDir()}
	server, err := New(Options{Sandboxes: f, Folder: f.folder, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	s := &site{fake: f, server: server, url: strings.Split(server.Address(listening.Listener.Addr()), "/#")[0]}
	s.port = s.url[strings.LastIndex(s.url, ":"):]
	response, said := s.ask(t, "POST", "/api/login", `{"token":"`+server.token+`"}`, nil)
	if response.StatusCode != 200 {
		t.Fatalf("login: %s", response.Status)
	}
	cookie := response.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Secure || cookie.Domain != "" {
		t.Errorf("the cookie is %v", cookie)
	}
	s.cookie = cookie.Name + "=" + cookie.Value
	s.key = strings.Split(said, `"`)[3]
	return s
}

// request is one that the page sends.
func (s *site) request(t *testing.T, method, path, body string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+s.port+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Host = strings.TrimPrefix(s.url, "http://")
	request.Header.Set("Origin", s.url)
	request.Header.Set("Cookie", s.cookie)
	request.Header.Set(keyHeader, s.key)
	return request
}

// ask sends a request as the page does, other than change says.
func (s *site) ask(t *testing.T, method, path, body string, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	request := s.request(t, method, path, body)
	if change != nil {
		change(request)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	said, _ := io.ReadAll(response.Body)
	return response, string(said)
}

// TestAttackers are requests that must not be served, each with one thing wrong.
func TestAttackers(t *testing.T) {
	s := newSite(t)
	port := s.port
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	without := func(name string) func(*http.Request) { return func(r *http.Request) { r.Header.Del(name) } }
	host := func(name string) func(*http.Request) {
		return func(r *http.Request) { r.Host = name; r.Header.Set("Origin", "http://"+name) }
	}
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		status int
	}{
		{"nothing is wrong", nil, 200},
		{"another port, as of ssh -L", host(s.server.name + ":1" + port[1:]), 401}, // another port, another cookie
		{"a name that others have had", host("localhost" + port), 421},
		{"an address that others have had", host("127.0.0.1" + port), 421},
		{"the same in another family", host("[::1]" + port), 421},
		{"a name below the board's", host("x." + s.server.name + port), 421},
		{"no name", func(r *http.Request) { r.Host = port }, 421},
		{"a rebinding name", host("evil.example" + port), 421},
		{"a rebinding name without a port", host("evil.example"), 421},
		{"a name that begins as loopback", host("127.0.0.1.evil.example" + port), 421},
		{"a name that ends as localhost", host("x.localhost" + port), 421},
		{"an address of the network", host("192.168.1.2" + port), 421},
		{"any address", host("0.0.0.0" + port), 421},
		{"a rebinding name and an honest Origin", func(r *http.Request) { r.Host = "evil.example" + port }, 421},
		{"another origin", header("Origin", "https://evil.example"), 403},
		{"the origin of a server inside that is forwarded", header("Origin", "http://127.0.0.1:3000"), 403},
		{"another name of loopback", header("Origin", "http://localhost"+port), 403},
		{"the other scheme", header("Origin", "https://127.0.0.1"+port), 403},
		{"no origin at all", header("Origin", "null"), 403},
		{"two origins", func(r *http.Request) { r.Header.Add("Origin", "http://evil.example") }, 403},
		{"a form of another site", without("Origin"), 403},
		{"the same site on another port", header("Sec-Fetch-Site", "same-site"), 403},
		{"another site", header("Sec-Fetch-Site", "cross-site"), 403},
		{"no cookie", without("Cookie"), 401},
		{"another cookie", header("Cookie", strings.Split(s.cookie, "=")[0]+"=AAAAAAAAAAAAAAAAAAAAAAAAAA"), 401},
		{"the cookie alone, as another port gets it", without(keyHeader), 401},
		{"another key", header(keyHeader, "AAAAAAAAAAAAAAAAAAAAAAAAAA"), 401},
		{"the key alone", func(r *http.Request) { r.Header.Del("Cookie"); r.Header.Set(keyHeader, s.key) }, 401},
		{"the token as a key", header(keyHeader, s.server.token), 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(s.commands)
			response, said := s.ask(t, "POST", "/api/sandboxes/work/stop", "{}", c.change)
			if response.StatusCode != c.status {
				t.Errorf("%s: %s", response.Status, said)
			}
			if ran := len(s.commands) - before; ran != 0 && c.status != 200 {
				t.Errorf("%d commands ran", ran)
			}
		})
	}
	t.Run("every path wants a login", func(t *testing.T) {
		for _, path := range []string{"GET /api/events", "GET /api/choices", "POST /api/sandboxes", "GET /api/sandboxes/work/screen", "GET /api/sandboxes/work/log",
			"GET /api/sandboxes/work/refusals", "GET /api/sandboxes/work/review", "GET /api/sandboxes/work/loses", "POST /api/sandboxes/work/start",
			"POST /api/sandboxes/work/stop", "POST /api/sandboxes/work/down", "POST /api/sandboxes/work/allow", "POST /api/sandboxes/work/apply", "PUT /api/sandboxes/work/files"} {
			method, path, _ := strings.Cut(path, " ")
			if response, _ := s.ask(t, method, path, "{}", without(keyHeader)); response.StatusCode != 401 {
				t.Errorf("%s %s: %s", method, path, response.Status)
			}
		}
	})
}

func TestHeaders(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/", "/board.js", "/xterm/xterm.mjs", "/api/choices", "/nowhere"} {
		response, _ := s.ask(t, "GET", path, "", nil)
		policy := response.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %q", path, policy)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Frame-Options": "DENY"} {
			if got := response.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		if response.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s is for other origins", path)
		}
	}
	page, _ := static.ReadFile("static/index.html")
	script, _ := static.ReadFile("static/board.js")
	for _, word := range []string{"innerHTML", "insertAdjacentHTML", "document.write", "eval(", "style="} {
		if bytes.Contains(page, []byte(word)) || bytes.Contains(script, []byte(word)) {
			t.Errorf("the page has %s", word)
		}
	}
}

func TestPathTricks(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/static/board.js", "/../web.go", "/%2e%2e/web.go", "/xterm/../web.go", "/xterm/%2e%2e%2fboard.js", "/xterm/", "//board.js", "/api/sandboxes/../choices",
		"/api/sandboxes/%2e%2e/log", "/api/sandboxes/a%2fb/log", "/api/sandboxes/-f/log", "/api/sandboxes/--all/log", "/api/sandboxes/A/log", "/api/sandboxes/work%00/log"} {
		response, said := s.ask(t, "GET", path, "", func(r *http.Request) { r.URL.Opaque = path })
		if response.StatusCode < 300 {
			t.Errorf("%s: %s: %.60s", path, response.Status, said)
		}
	}
	if len(s.commands) > 0 {
		t.Errorf("ran %q", s.commands)
	}
}

func TestWrongTokens(t *testing.T) {
	s := newSite(t)
	for i := range tries + 3 {
		want := 401
		if i >= tries {
			want = 429
		}
		response, _ := s.ask(t, "POST", "/api/login", fmt.Sprintf(`{"token":"%d"}`, i), nil)
		if response.StatusCode != want {
			t.Errorf("try %d: %s", i, response.Status)
		}
	}
	if response, _ := s.ask(t, "POST", "/api/login", `{"token":"`+s.server.token+`"}`, nil); response.StatusCode != 429 {
		t.Errorf("the token after too many wrong ones: %s", response.Status)
	}
	if response, _ := s.ask(t, "GET", "/api/choices", "", nil); response.StatusCode != 200 {
		t.Errorf("who is logged in: %s", response.Status)
	}
	for i := range 2 * maxTried {
		s.server.mayTry(fmt.Sprint(i), true)
	}
	if len(s.server.tried) > maxTried {
		t.Errorf("remembers %d addresses", len(s.server.tried))
	}
}

func TestSessionsAreBounded(t *testing.T) {
	s := newSite(t)
	for range maxSessions {
		s.ask(t, "POST", "/api/login", `{"token":"`+s.server.token+`"}`, nil)
	}
	if len(s.server.sessions) != maxSessions {
		t.Errorf("%d sessions", len(s.server.sessions))
	}
	if response, _ := s.ask(t, "GET", "/api/choices", "", nil); response.StatusCode != 401 {
		t.Errorf("the oldest session: %s", response.Status)
	}
}

func TestPagesAreBounded(t *testing.T) {
	s := newSite(t)
	for i := range maxPages + 1 {
		response, err := http.DefaultTransport.RoundTrip(s.request(t, "GET", "/api/events", ""))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if want := map[bool]int{true: 200, false: 503}[i < maxPages]; response.StatusCode != want {
			t.Errorf("page %d: %s", i, response.Status)
		}
	}
}

func TestScreenIsForThePage(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct {
		name, origin, cookie, key, host string
		status                          int
	}{
		{"the page", s.url, s.cookie, s.key, "", 101},
		{"another origin", "http://evil.example", s.cookie, s.key, "", 403},
		{"a forwarded server", "http://127.0.0.1:3000", s.cookie, s.key, "", 403},
		{"a rebinding name", "http://evil.example", s.cookie, s.key, "evil.example", 421},
		{"no cookie", s.url, "", s.key, "", 401},
		{"the cookie alone", s.url, s.cookie, "x", "", 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			socket, response, err := websocket.Dial(t.Context(), "http://127.0.0.1"+s.port+"/api/sandboxes/work/screen?take=1", &websocket.DialOptions{
				Host: cmp.Or(c.host, strings.TrimPrefix(s.url, "http://")), Subprotocols: []string{subprotocol, c.key}, HTTPHeader: http.Header{"Origin": {c.origin}, "Cookie": {c.cookie}},
			})
			if response.StatusCode != c.status {
				t.Fatalf("%s: %v", response.Status, err)
			}
			if err == nil {
				_, said, err := socket.Read(t.Context())
				if err != nil || !bytes.Contains(said, []byte("no sandbox")) {
					t.Errorf("%s, %v", said, err)
				}
				socket.CloseNow()
			}
		})
	}
	if s.recorded != 1 {
		t.Errorf("%d screens are on record", s.recorded)
	}
}

func TestDroppedNames(t *testing.T) {
	s := newSite(t)
	put := func(name, content string) int {
		response, _ := s.ask(t, "PUT", "/api/sandboxes/work/files?name="+strings.NewReplacer("%", "%25", "/", "%2F", "\n", "%0A", "\x1b", "%1B", "\x00", "%00", "\\", "%5C", " ", "%20", "+", "%2B", "\u202e", "%E2%80%AE", "\xff", "%FF", "&", "%26", "#", "%23").Replace(name), content, nil)
		return response.StatusCode
	}
	for _, name := range []string{"", ".", "..", "../up", "a/b", "/etc/passwd", `..\up`, "a\nb", "a\x1b[2Jb", "a\x00b", "\u202egpj.exe", "\xff", ".envrc", ".git", strings.Repeat("a", 256)} {
		if status := put(name, "x"); status != 400 {
			t.Errorf("%q: %d", name, status)
		}
	}
	for _, name := range []string{"a.txt", "-rf", "bild ä+1%.png", "<img src=x onerror=alert(1)>.png", "a&b#c"} {
		if status := put(name, "content"); status != 200 || s.dropped[name] != "content" {
			t.Errorf("%q: %d, %q", name, status, s.dropped)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"oversize":       func(r *http.Request) { r.ContentLength = maxFile + 1; r.Body = io.NopCloser(strings.NewReader("")) },
		"without a size": func(r *http.Request) { r.ContentLength = -1 },
	} {
		request := s.request(t, "PUT", "/api/sandboxes/work/files?name=big", "x")
		change(request)
		response, err := http.DefaultTransport.RoundTrip(request)
		if err == nil && response.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %s", name, response.Status)
		}
	}
	if _, there := s.dropped["big"]; there {
		t.Error("too much was written")
	}
}

// TestCommands are what requests become, and those that become nothing.
func TestCommands(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct{ path, body, want string }{
		{"work/start", "{}", "start|work"},
		{"work/down", `{"force":false}`, "down|--force=false|work"},
		{"work/down", `{"force":true}`, "down|--force=true|work"},
		{"work/down", `{"all":true}`, ""},
		{"work/allow", `{"allow":"a.example"}`, "network|work|--allow=a.example"},
		{"work/allow", `{"allow":"b.example"}`, ""},               // it was not refused
		{"work/allow", `{"allow":"a.example","mode":"full"}`, ""}, // not so
		{"work/allow", `{"allow":""}`, ""},
		{"work/apply", `{"parts":[{"part":"main","content":"c","files":[{"id":"-x","hunks":[0,2]},{"id":"y","hunks":null}]}],"dryRun":true}`, "apply work [{main c [{-x [0 2]} {y []}]}] true"},
		{"work/apply", `{"parts":[{"paths":["x"]}]}`, ""},
		{"", `{"name":"new","template":"claude","mode":"git-worktree","workspace":"~/p","branch":"b","task":"--do it"}`, "up|--template=claude|--git-worktree=/home/me/p|--branch=b|new|--|claude|--do it"},
		{"", `{"name":"new","template":"shell","mode":"direct","workspace":"/p","task":"make"}`, "up|--template=shell|--workspace=/p|new|--|sh|-c|make"},
		{"", `{"name":"--all","template":"shell","mode":"direct","workspace":"/p"}`, ""},
		{"", `{"name":"new","template":"other","mode":"direct","workspace":"/p"}`, ""},
		{"", `{"name":"new","template":"shell","mode":"x","workspace":"/p"}`, ""},
		{"", `{"name":"new","template":"shell","mode":"direct","workspace":"p"}`, ""},
		{"", `{"name":"new"` + strings.Repeat(" ", maxBody) + `}`, ""},
	} {
		s.commands = nil
		response, said := s.ask(t, "POST", strings.TrimSuffix("/api/sandboxes/"+c.path, "/"), c.body, nil)
		if got := strings.Join(s.commands, ";"); got != c.want || (c.want != "") != (response.StatusCode == 200) {
			t.Errorf("%s %.100s: %s %s, ran %q", c.path, c.body, response.Status, said, got)
		}
	}
}

// TestNothingIsWatchedWithoutPages: an idle board asks nobody, and one with a page only on changes.
func TestNothingIsWatchedWithoutPages(t *testing.T) {
	s := newSite(t)
	s.rows = []Row{{Name: "one"}}
	if s.lists != 0 {
		t.Errorf("%d lists without a page", s.lists)
	}
	response, err := http.DefaultTransport.RoundTrip(s.request(t, "GET", "/api/events", ""))
	if err != nil {
		t.Fatal(err)
	}
	next := func() string {
		buffer := make([]byte, 4096)
		n, _ := response.Body.Read(buffer)
		return string(buffer[:n])
	}
	if got := next(); !strings.Contains(got, `"name":"one"`) {
		t.Errorf("the first list is %q", got)
	}
	s.mu.Lock()
	s.rows = []Row{{Name: "<script>alert(1)</script>"}}
	s.mu.Unlock()
	if err := os.WriteFile(s.folder+"/one.json", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := next(); !strings.Contains(got, "script") || strings.Contains(got, "<script") {
		t.Errorf("the next list is %q", got)
	}
	response.Body.Close()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		s.server.events.mu.Lock()
		left := len(s.server.events.pages)
		s.server.events.mu.Unlock()
		if left == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the page is not forgotten")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lists > 4 {
		t.Errorf("%d lists for two changes", s.lists)
	}
}

func TestListenAddresses(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "127.0.0.2:0", "example.com:0"} {
		if _, err := Listen(address, nil); !errors.Is(err, forage.ErrUsage) {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "localhost:0"} {
		listeners, err := Listen(address, nil)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		at := listeners[0].Addr().String()
		for _, listener := range listeners {
			listener.Close()
		}
		// What another user has on one address of the port could answer for the board.
		for _, host := range []string{"127.0.0.1", "::1"} {
			taken, err := net.Listen("tcp", net.JoinHostPort(host, at[strings.LastIndex(at, ":")+1:]))
			if err != nil {
				t.Log(err) // no IPv6 here
				continue
			}
			if _, err := Listen(at, nil); !errors.Is(err, forage.ErrNoPort) {
				t.Errorf("with %s taken: %v", taken.Addr(), err)
			}
			taken.Close()
		}
	}
}

func TestCertificateNamesTheBoard(t *testing.T) {
	example := httptest.NewUnstartedServer(nil)
	example.StartTLS()
	defer example.Close()
	certificate := example.TLS.Certificates[0] // for example.com and 127.0.0.1
	server, err := New(Options{Sandboxes: &fake{}, Log: slog.New(slog.DiscardHandler), Certificate: &tls.Certificate{Certificate: certificate.Certificate, PrivateKey: certificate.PrivateKey}})
	if err != nil {
		t.Fatal(err)
	}
	if at := server.Address(&net.TCPAddr{Port: 8022}); !strings.HasPrefix(at, "https://example.com:8022/#token=") {
		t.Errorf("it is at %s", at)
	}
	for host, ours := range map[string]bool{"example.com": true, "example.com:8022": true, "127.0.0.1": true, "localhost": false, "evil.example": false, "example.com.evil.example": false, "": false} {
		if server.isOurs(host) != ours {
			t.Errorf("%q is ours: %v", host, !ours)
		}
	}
}
