package login

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"forage"
	"forage/internal/testdir"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// world is a host with a login file, and a token endpoint that rotates tokens.
type world struct {
	t     *testing.T
	kind  forage.LoginKind
	path  string
	login *Login

	mu       sync.Mutex
	clock    time.Time
	asked    []map[string]string       // bodies of the requests for tokens
	answer   func(http.ResponseWriter) // instead of new tokens
	inFlight func()                    // while a request is being answered
}

func newWorld(t *testing.T, kind forage.LoginKind, file string) *world {
	t.Helper()
	w := &world{t: t, kind: kind, clock: start, path: filepath.Join(t.TempDir(), "agent", "login.json")}
	testdir.Must(t, os.Mkdir(filepath.Dir(w.path), 0o700))
	w.write(file)
	w.login = w.open()
	return w
}

// open is another process's look at the same login.
func (w *world) open() *Login {
	w.t.Helper()
	srv := httptest.NewServer(w)
	w.t.Cleanup(srv.Close)
	login, err := Open(forage.Login{Kind: w.kind, File: w.path}, func() http.RoundTripper { return toServer{srv.URL} }, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	return login
}

// toServer sends requests for the token endpoints to a server of the test.
type toServer struct{ url string }

func (s toServer) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.URL.String() {
	case "https://platform.claude.com/v1/oauth/token", "https://auth.openai.com/oauth/token":
	default:
		return nil, fmt.Errorf("asked %s", r.URL)
	}
	u, err := url.Parse(s.url)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL = u
	return http.DefaultTransport.RoundTrip(r)
}

func (w *world) ServeHTTP(res http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Error(err)
	}
	asked := map[string]string{}
	if err := json.Unmarshal(body, &asked); err != nil {
		w.t.Errorf("asked with %q: %v", body, err)
	}
	w.mu.Lock()
	w.asked = append(w.asked, asked)
	n, answer, inFlight := len(w.asked), w.answer, w.inFlight
	w.mu.Unlock()
	if inFlight != nil {
		inFlight()
	}
	if answer != nil {
		answer(res)
		return
	}
	got := map[string]any{"access_token": fmt.Sprintf("sk-ant-oat01-access-%d", n), "refresh_token": fmt.Sprintf("sk-ant-ort01-refresh-%d", n), "expires_in": 28800}
	if w.kind == forage.LoginChatGPT {
		got = map[string]any{"access_token": realJWT(start.Add(240*time.Hour), fmt.Sprintf("access-%d", n)),
			"refresh_token": fmt.Sprintf("rt_refresh-%d", n), "id_token": realJWT(start.Add(time.Hour), "id")}
	}
	res.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(res).Encode(got)
}

func (w *world) requests() []map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = w.clock.Add(d)
}

// set changes how the token endpoint answers.
func (w *world) set(answer func(http.ResponseWriter), inFlight func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer, w.inFlight = answer, inFlight
}

// write replaces the login file, as agents do.
func (w *world) write(content string) {
	w.t.Helper()
	next := w.path + ".new"
	if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(next, w.path); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read() string {
	w.t.Helper()
	content, err := os.ReadFile(w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(content)
}

// get is the token or, in brackets, the error.
func (w *world) get() string { return get(w.login) }

func get(l *Login) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	secret, err := l.Get(ctx)
	if err != nil {
		return "[" + err.Error() + "]"
	}
	return secret.Reveal()
}

// claudeLogin is a login file of Claude Code.
func claudeLogin(access, refresh string, ends time.Time) string {
	return fmt.Sprintf(`{"claudeAiOauth":{"accessToken":%q,"refreshToken":%q,"expiresAt":%d,"scopes":["org:create_api_key","user:inference","user:profile"],`+
		`"subscriptionType":"max","rateLimitTier":"default_claude_max_5x","future":{"a":1}},"mcpOAuth":{"server":{"accessToken":"mcp-real-token-of-a-server"}},"big":12345678901234567890}`,
		access, refresh, ends.UnixMilli())
}

// chatGPTLogin is a login file of Codex.
func chatGPTLogin(access, refresh string) string {
	return fmt.Sprintf(`{"auth_mode":"chatgpt","OPENAI_API_KEY":"sk-proj-real-key-of-the-user","tokens":{"id_token":%q,"access_token":%q,"refresh_token":%q,`+
		`"account_id":"b7d5fd1c-account","future":1},"last_refresh":"2026-11-20T10:00:00.123456789Z","other":[1]}`,
		realJWT(start.Add(time.Hour), "id"), access, refresh)
}

// realJWT is a token as OpenAI issues them.
func realJWT(ends time.Time, id string) string {
	text := base64.RawURLEncoding.EncodeToString
	return text([]byte(`{"alg":"RS256","kid":"19344e65-bbc9-44d1-a9d0-f957b079bd0e","typ":"JWT"}`)) + "." +
		text(fmt.Appendf(nil, `{"aud":["https://api.openai.com/v1"],"client_id":"app_x","email":"user@example.com","exp":%d,"https://api.openai.com/auth":`+
			`{"chatgpt_account_id":"b7d5fd1c-account","chatgpt_plan_type":"pro","chatgpt_user_id":"user-real","organizations":[{"id":"org-real"}]},`+
			`"jti":%q,"session_id":"authsess_real_session_of_the_user"}`, ends.Unix(), id)) + "." +
		text([]byte("the signature of "+id+", which is what makes it a secret"))
}
