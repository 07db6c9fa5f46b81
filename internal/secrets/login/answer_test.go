package login

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"forage"
	"forage/internal/testdir"
)

const (
	claudeHost  = "platform.claude.com"
	claudeToken = "/v1/oauth/token"
)

// request is what a sandbox sends to one of the hosts of a login.
type request struct{ method, host, path, kind, body string }

func (r request) send(t *testing.T, l *Login, access, refresh string) (status int, answer string, err error) {
	t.Helper()
	req := httptest.NewRequest(r.method, "https://"+r.host+r.path, strings.NewReader(r.body))
	req.Header.Set("Content-Type", r.kind)
	res, err := l.Answer(t.Context(), r.host, req, access, refresh)
	if res == nil {
		return 0, "", err
	}
	body, readErr := io.ReadAll(res.Body)
	if readErr != nil {
		t.Fatal(readErr)
	}
	return res.StatusCode, string(body), err
}

func TestAnswer(t *testing.T) {
	const (
		json = "application/json"
		form = "application/x-www-form-urlencoded"
	)
	access, refresh, err := Placeholders(forage.LoginClaude, "box", "anthropic")
	testdir.Must(t, err)
	tests := []struct {
		name string
		request
		want int // 0: goes on
	}{
		{"renewal", request{"POST", claudeHost, claudeToken, json, `{"grant_type":"refresh_token","refresh_token":"` + refresh + `","client_id":"x"}`}, 200},
		{"renewal by a form", request{"POST", claudeHost, claudeToken, form, `grant_type=refresh_token&refresh_token=` + refresh}, 200},
		{"another account's token", request{"POST", claudeHost, claudeToken, json, `{"grant_type":"refresh_token","refresh_token":"sk-ant-ort01-of-another"}`}, 403},
		{"logging in", request{"POST", claudeHost, claudeToken, json, `{"grant_type":"authorization_code","code":"x","refresh_token":"` + refresh + `"}`}, 403},
		{"logging out", request{"POST", claudeHost, claudeToken + "/revoke", json, `{"token":"` + refresh + `"}`}, 403},
		{"a query", request{"POST", claudeHost, claudeToken + "?grant_type=authorization_code", form, `grant_type=refresh_token&refresh_token=` + refresh}, 403},
		{"too long", request{"POST", claudeHost, claudeToken, json, `{"grant_type":"refresh_token","refresh_token":"` + refresh + `"}` + strings.Repeat(" ", maxAsked)}, 403},
		{"the login page", request{"GET", claudeHost, "/oauth/authorize?client_id=x", "", ""}, 403},
		{"a path that hides", request{"POST", claudeHost, "/v1/%6fauth/token", json, `{}`}, 403},
		{"a path with detours", request{"POST", claudeHost, "/v1//x/../oauth/./token", json, `{}`}, 403},
		{"the API", request{"POST", "api.anthropic.com", "/v1/messages", json, `{}`}, 0},
		{"the account's profile", request{"GET", "api.anthropic.com", "/api/oauth/profile", "", ""}, 0},
		{"a session in the cloud", request{"POST", "api.anthropic.com", "/v1/sessions", json, `{}`}, 403},
		{"memory of other machines", request{"PUT", "api.anthropic.com", "/api/claude_code/memory", json, `{}`}, 403},
		{"skills of other machines", request{"PUT", "api.anthropic.com", "/api/claude_code/settings/../skills", json, `{}`}, 403},
		{"a token for a token", request{"POST", "api.anthropic.com", claudeToken, json, `{}`}, 403},
		{"another host of the user's", request{"POST", "claude.example.com", "/v1/sessions", json, `{}`}, 0},
		{"a key from the login", request{"POST", "api.anthropic.com", "/api/oauth/claude_cli/create_api_key", json, `{}`}, 403},
		{"a key from the login, hidden", request{"POST", "api.anthropic.com", "/api/oauth/claude_cli/create%5Fapi_key", json, `{}`}, 403},
		{"skills, past parameters", request{"PUT", "api.anthropic.com", "/v1/messages/..;x/../api/claude_code/skills", json, `{}`}, 403},
		{"skills, by a backslash", request{"PUT", "api.anthropic.com", "/v1/messages/..%5c../api/claude_code/skills", json, `{}`}, 403},
		{"skills, hidden three times", request{"PUT", "api.anthropic.com", "/v1/messages/%25252e%25252e/skills", json, `{}`}, 403},
		{"skills, hidden deeper than anybody looks", request{"PUT", "api.anthropic.com", "/v1/messages/%252525252e%252525252e/skills", json, `{}`}, 403},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, forage.LoginClaude, claudeLogin(oldAccess, oldRefresh, start.Add(time.Hour)))
			status, answer, err := test.send(t, w.login, access, refresh)
			if err != nil || status != test.want {
				t.Errorf("status %d, error %v, want %d", status, err, test.want)
			}
			checkNoTokens(t, answer)
		})
	}
}

// TestAnswerFields: what a field says of the path is judged like the path.
func TestAnswerFields(t *testing.T) {
	w := newWorld(t, forage.LoginClaude, claudeLogin(oldAccess, oldRefresh, start.Add(time.Hour)))
	for _, test := range []struct {
		name, value string
		refused     bool
	}{
		{"X-Original-URL", "/api/oauth/claude_cli/create_api_key", true},
		{"X-Rewrite-Url", "api/oauth/claude_cli/create_api_key", true},
		{"X_original_uri", "https://api.anthropic.com/v1/sessions?x", true},
		{"X-Forwarded-Path", "/v1/messages/../sessions", true},
		{"X-Original-URL", "/v1/messages?beta=true", false},
		{"X-Stainless-Lang", "js", false},
	} {
		req := httptest.NewRequest("POST", "https://api.anthropic.com/v1/messages", strings.NewReader("{}"))
		req.Header.Set(test.name, test.value)
		res, err := w.login.Answer(t.Context(), "api.anthropic.com", req, "access", "refresh")
		if refused := res != nil && res.StatusCode == http.StatusForbidden; err != nil || refused != test.refused {
			t.Errorf("%s: %s: refused %v, error %v", test.name, test.value, refused, err)
		}
	}
}

func TestAnswerChatGPT(t *testing.T) {
	access, refresh, err := Placeholders(forage.LoginChatGPT, "box", "openai")
	testdir.Must(t, err)
	const host = "auth.openai.com"
	body := `{"client_id":"x","grant_type":"refresh_token","refresh_token":"` + refresh + `"}`
	tests := []struct {
		name string
		request
		want int
	}{
		{"renewal", request{"POST", host, "/oauth/token", "application/json", body}, 200},
		{"a key for the login", request{"POST", host, "/oauth/token", "application/x-www-form-urlencoded", "grant_type=urn:ietf:params:oauth:grant-type:token-exchange&requested_token=openai-api-key"}, 403},
		{"a code for a device", request{"POST", host, "/api/accounts/deviceauth/usercode", "application/json", "{}"}, 403},
		{"work", request{"POST", "chatgpt.com", "/backend-api/codex/responses", "application/json", "{}"}, 0},
		{"a task in the cloud", request{"POST", "chatgpt.com", "/backend-api/wham/tasks", "application/json", "{}"}, 403},
		{"mail, by an app", request{"POST", "chatgpt.com", "/backend-api/ps/mcp", "application/json", "{}"}, 403},
		{"other conversations", request{"GET", "chatgpt.com", "/backend-api/conversations?limit=100", "", ""}, 403},
		{"by a detour", request{"GET", "chatgpt.com", "/backend-api/codex/../conversations", "", ""}, 403},
		{"by a slash that hides", request{"GET", "chatgpt.com", "/backend-api/codex/..%2fconversations", "", ""}, 403},
		{"the web page's session", request{"GET", "chatgpt.com", "/api/auth/session", "", ""}, 403},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, forage.LoginChatGPT, chatGPTLogin(realJWT(start.Add(time.Hour), "real"), "rt_real-refresh-token"))
			status, answer, err := test.send(t, w.login, access, refresh)
			if err != nil || status != test.want {
				t.Errorf("status %d, error %v, want %d", status, err, test.want)
			}
			checkNoTokens(t, answer)
		})
	}
}

// TestAnswerRenews: a sandbox asks because a server has refused the token. It
// gets placeholders, the host a new login, and not as often as the sandbox likes.
func TestAnswerRenews(t *testing.T) {
	access, refresh, err := Placeholders(forage.LoginClaude, "box", "anthropic")
	testdir.Must(t, err)
	w := newWorld(t, forage.LoginClaude, claudeLogin("revoked", "r", start.Add(time.Hour)))
	ask := request{"POST", claudeHost, claudeToken, "application/json", `{"grant_type":"refresh_token","refresh_token":"` + refresh + `"}`}
	for range 5 {
		status, answer, err := ask.send(t, w.login, access, refresh)
		if err != nil || status != 200 {
			t.Fatalf("status %d, error %v", status, err)
		}
		var got map[string]any
		testdir.Must(t, json.Unmarshal([]byte(answer), &got))
		want := map[string]any{"token_type": "Bearer", "access_token": access, "refresh_token": refresh,
			"expires_in": far.Sub(start).Seconds(), "scope": "user:inference user:profile"}
		testdir.Same(t, "answer", want, got)
	}
	if n := len(w.requests()); n != 1 {
		t.Errorf("the server was asked %d times", n)
	}
	if got := w.get(); got != "sk-ant-oat01-access-1" {
		t.Errorf("then the token is %s", got)
	}
}

// TestAnswerWithoutLogin: the host's login has ended for good; the sandbox does not hear why.
func TestAnswerWithoutLogin(t *testing.T) {
	access, refresh, err := Placeholders(forage.LoginClaude, "box", "anthropic")
	testdir.Must(t, err)
	w := endedClaude(t)
	w.set(func(res http.ResponseWriter) { refuse(res, 400, `{"error":"invalid_grant"}`) }, nil)
	ask := request{"POST", claudeHost, claudeToken, "application/json", `{"grant_type":"refresh_token","refresh_token":"` + refresh + `"}`}
	status, answer, err := ask.send(t, w.login, access, refresh)
	// Not invalid_grant, for which Claude Code would forget the login inside.
	if status != 503 || strings.Contains(answer, "invalid_grant") || strings.Contains(answer, w.path) {
		t.Errorf("status %d, %s", status, answer)
	}
	if err == nil || !strings.Contains(err.Error(), "log in again on the host with `claude`") {
		t.Errorf("the user reads %v", err)
	}
}

func checkNoTokens(t *testing.T, text string) {
	t.Helper()
	for _, part := range []string{"old-access", "old-refresh", "rt_real", "c2lnbmF0dXJlIG9m"} {
		if strings.Contains(text, part) {
			t.Errorf("a token is in %s", text)
		}
	}
}

// FuzzAnswer: whatever a sandbox sends to a token endpoint, nothing but a renewal with
// the placeholder is answered with tokens, and those are placeholders.
func FuzzAnswer(f *testing.F) {
	access, refresh, err := Placeholders(forage.LoginClaude, "box", "anthropic")
	if err != nil {
		f.Fatal(err)
	}
	f.Add("application/json", []byte(`{"grant_type":"refresh_token","refresh_token":"`+refresh+`"}`), claudeToken)
	f.Add("application/x-www-form-urlencoded", []byte("grant_type=refresh_token&refresh_token="+refresh), "/v1/%6fauth/token")
	f.Add("multipart/form-data; boundary=x", []byte("--x--"), "/oauth/x;y")
	f.Fuzz(func(t *testing.T, kind string, body []byte, path string) {
		req, err := http.NewRequest("POST", "https://"+claudeHost, strings.NewReader(string(body)))
		if err != nil {
			t.Skip()
		}
		req.URL.Path = path
		req.Header.Set("Content-Type", kind)
		if got := renews(req, refresh); got && !strings.Contains(string(body), refresh[:8]) && !strings.ContainsAny(string(body), `%\`) {
			t.Errorf("%q renews", body)
		}
		judged(req)
		_ = access
	})
}
