package acceptance

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// oauth is a server that renews logins, once for each refresh token (RFC 6749 section 6).
type oauth struct {
	jwt bool // access tokens are JSON Web Tokens

	mu      sync.Mutex
	access  string   // what it gave last
	refresh string   // what it takes next
	asked   []string // refresh tokens that it was shown
}

func newOAuth(jwt bool) *oauth {
	s := &oauth{jwt: jwt}
	s.issueLocked()
	return s
}

// issueLocked makes new tokens.
func (s *oauth) issueLocked() {
	if s.jwt {
		s.access, s.refresh = jwtFor(time.Now().Add(time.Hour)), "rt_"+random(60)
		return
	}
	s.access, s.refresh = "sk-ant-oat01-"+random(95), "sk-ant-ort01-"+random(95)
}

func (s *oauth) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Kind    string `json:"grant_type"`
		Refresh string `json:"refresh_token"`
		Client  string `json:"client_id"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Kind != "refresh_token" || asked.Client == "" {
		http.Error(w, `{"error":"invalid_request"}`, http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, asked.Refresh)
	if asked.Refresh != s.refresh {
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	s.issueLocked()
	answer := map[string]any{"token_type": "Bearer", "access_token": s.access, "refresh_token": s.refresh, "expires_in": 3600}
	if s.jwt {
		answer["id_token"] = jwtFor(time.Now().Add(time.Hour))
	}
	writeJSON(w, answer)
}

// now are the tokens that are good now, and how often it was asked for them.
func (s *oauth) now() (access, refresh string, asked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.access, s.refresh, len(s.asked)
}

// takes says whether a request shows the token that is good now.
func (s *oauth) takes(r *http.Request) bool {
	access, _, _ := s.now()
	return r.Header.Get("Authorization") == "Bearer "+access
}

// revoke makes the access token that it gave last worthless, before its time.
func (s *oauth) revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.access = "revoked"
}

// claudeLogin is the login file of Claude Code, whose access token ends then.
func (s *oauth) claudeLogin(ends time.Time) string {
	access, refresh, _ := s.now()
	return fmt.Sprintf(`{"claudeAiOauth":{"accessToken":%q,"refreshToken":%q,"expiresAt":%d,"scopes":["user:inference","user:profile"],"subscriptionType":"max"}}`,
		access, refresh, ends.UnixMilli())
}

// chatGPTLogin is the login file of Codex, whose access token ends then.
func (s *oauth) chatGPTLogin(ends time.Time) string {
	_, refresh, _ := s.now()
	return fmt.Sprintf(`{"auth_mode":"chatgpt","OPENAI_API_KEY":null,"tokens":{"id_token":%q,"access_token":%q,"refresh_token":%q,"account_id":%q},"last_refresh":%q}`,
		jwtFor(ends), jwtFor(ends), refresh, chatGPTAccount, time.Now().Add(-time.Hour).Format(time.RFC3339))
}

const chatGPTAccount = "account-of-the-acceptance-test"

// jwtFor is a token as OpenAI issues them; what is secret of it is the signature.
func jwtFor(ends time.Time) string {
	text := base64.RawURLEncoding.EncodeToString
	return text([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." +
		text(fmt.Appendf(nil, `{"email":"user@example.com","exp":%d,"https://api.openai.com/auth":{"chatgpt_account_id":%q,"chatgpt_plan_type":"pro","chatgpt_user_id":"user-x"}}`,
			ends.Unix(), chatGPTAccount)) + "." + random(86)
}

// random makes n letters and digits.
func random(n int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	text := make([]byte, n)
	_, _ = rand.Read(text) // never fails (crypto/rand)
	for i, b := range text {
		text[i] = letters[int(b)%len(letters)]
	}
	return string(text)
}

// credentials are those that a server was shown, with every request.
type credentials struct {
	mu    sync.Mutex
	shown []string
}

func (c *credentials) add(r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = append(c.shown, fmt.Sprintf("key=%q authorization=%q", r.Header.Get("X-Api-Key"), r.Header.Get("Authorization")))
}

// check wants every request to have shown one credential and nothing else.
func (c *credentials) check(t *testing.T, key, authorization string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	want := fmt.Sprintf("key=%q authorization=%q", key, authorization)
	if len(c.shown) == 0 {
		t.Error("nobody asked the API")
	}
	for _, shown := range slices.Compact(slices.Sorted(slices.Values(c.shown))) {
		if shown != want {
			t.Errorf("the API was shown %s, want %s", shown, want)
		}
	}
}
