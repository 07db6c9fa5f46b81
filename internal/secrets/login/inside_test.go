package login

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"forage"
	"forage/internal/testdir"
)

func TestPlaceholders(t *testing.T) {
	tests := []struct {
		kind            forage.LoginKind
		access, refresh string // what they begin with
	}{
		{forage.LoginClaude, "sk-ant-oat01-", "sk-ant-ort01-"},
		{forage.LoginChatGPT, "eyJ", "rt_"},
	}
	for _, test := range tests {
		t.Run(string(test.kind), func(t *testing.T) {
			seen := map[string]bool{}
			for _, names := range [][2]string{{"box", "a"}, {"box", "b"}, {"other", "a"}, {"boxa", ""}} {
				access, refresh, err := Placeholders(test.kind, names[0], names[1])
				testdir.Must(t, err)
				again, _, _ := Placeholders(test.kind, names[0], names[1])
				if access != again {
					t.Errorf("the same names gave %s and %s", access, again)
				}
				if !strings.HasPrefix(access, test.access) || !strings.HasPrefix(refresh, test.refresh) {
					t.Errorf("shapes: %s, %s", access, refresh)
				}
				if seen[access] || seen[refresh] {
					t.Errorf("%q has the placeholders of others", names)
				}
				seen[access], seen[refresh] = true, true
			}
		})
	}
}

func TestInsideClaude(t *testing.T) {
	files, err := Inside(forage.LoginClaude, []byte(claudeLogin(oldAccess, oldRefresh, start)), "ACCESS", "REFRESH")
	testdir.Must(t, err)
	want := []File{
		{".claude.json", []byte(`{"hasCompletedOnboarding":true}`), false},
		{".claude/.credentials.json", []byte(`{"claudeAiOauth":{"accessToken":"ACCESS","refreshToken":"REFRESH","expiresAt":4102444800000,` +
			`"scopes":["user:inference","user:profile"],"subscriptionType":"max","rateLimitTier":"default_claude_max_5x"}}`), true},
	}
	testdir.Same(t, "files", want, files)
}

func TestInsideChatGPT(t *testing.T) {
	files, err := Inside(forage.LoginChatGPT, []byte(chatGPTLogin(realJWT(start, "real"), "rt_real")), "ACCESS", "REFRESH")
	testdir.Must(t, err)
	if len(files) != 1 || files[0].Path != ".codex/auth.json" || !files[0].Renew {
		t.Fatalf("files %v", files)
	}
	got := parsed(t, string(files[0].Content))
	held := got["tokens"].(map[string]any)
	var claims map[string]any
	testdir.Must(t, readClaims(held["id_token"].(string), &claims))
	held["id_token"] = claims
	want := map[string]any{"auth_mode": "chatgpt", "OPENAI_API_KEY": nil, "last_refresh": "2100-01-01T00:00:00Z",
		"tokens": map[string]any{"access_token": "ACCESS", "refresh_token": "REFRESH", "account_id": "b7d5fd1c-account",
			"id_token": map[string]any{"email": "user@example.com", "exp": float64(far.Unix()), "https://api.openai.com/auth": map[string]any{
				"chatgpt_account_id": "b7d5fd1c-account", "chatgpt_plan_type": "pro", "chatgpt_user_id": "user-real"}}}}
	testdir.Same(t, "file", want, got)
}

// TestNothingOfTheTokens: no 12 bytes of a token are inside. An identity token is
// made of claims that are inside on purpose; of it, the signature counts.
func TestNothingOfTheTokens(t *testing.T) {
	signature := func(token string) string { return token[strings.LastIndex(token, ".")+1:] }
	accessJWT, idJWT := realJWT(start.Add(time.Hour), "real"), realJWT(start.Add(time.Hour), "id")
	tests := []struct {
		kind    forage.LoginKind
		file    string
		secrets []string
	}{
		{forage.LoginClaude, claudeLogin("sk-ant-oat01-Qm9sdGVkLWFjY2Vzcy10b2tlbg", "sk-ant-ort01-Qm9sdGVkLXJlZnJlc2g", start),
			[]string{"Qm9sdGVkLWFjY2Vzcy10b2tlbg", "Qm9sdGVkLXJlZnJlc2g", "mcp-real-token-of-a-server"}},
		{forage.LoginChatGPT, chatGPTLogin(accessJWT, "rt_Qm9sdGVkLXJlZnJlc2gtdG9rZW4"),
			[]string{"rt_Qm9sdGVkLXJlZnJlc2gtdG9rZW4", "sk-proj-real-key-of-the-user", signature(accessJWT), signature(idJWT),
				"authsess_real_session_of_the_user", "org-real-organization"}},
	}
	for _, test := range tests {
		t.Run(string(test.kind), func(t *testing.T) {
			access, refresh, err := Placeholders(test.kind, "box", "secret")
			testdir.Must(t, err)
			files, err := Inside(test.kind, []byte(test.file), access, refresh)
			testdir.Must(t, err)
			for _, file := range files {
				inside := string(file.Content)
				if test.kind == forage.LoginChatGPT {
					inside += decoded(t, inside)
				}
				for _, secret := range test.secrets {
					for i := range len(secret) - 11 {
						if strings.Contains(inside, secret[i:i+12]) {
							t.Errorf("%q of a secret is in %s:\n%s", secret[i:i+12], file.Path, inside)
							break
						}
					}
				}
			}
		})
	}
}

// decoded is what the tokens of Codex's file say.
func decoded(t *testing.T, file string) string {
	t.Helper()
	var parsed chatGPTFile
	testdir.Must(t, json.Unmarshal([]byte(file), &parsed))
	all := ""
	for _, token := range []string{parsed.Tokens.ID, parsed.Tokens.Access} {
		var claims json.RawMessage
		testdir.Must(t, readClaims(token, &claims))
		all += string(claims)
	}
	return all
}

func TestInsideWrong(t *testing.T) {
	for _, kind := range []forage.LoginKind{forage.LoginClaude, forage.LoginChatGPT, "other"} {
		for _, file := range []string{``, `{}`, `[]`, `sk-ant-oat01-secret`, `{"claudeAiOauth":1,"tokens":1}`} {
			if files, err := Inside(kind, []byte(file), "a", "r"); err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s, %s: %v, %v", kind, file, files, err)
			}
		}
	}
}

// FuzzInside: nothing of a token gets inside, wherever in the file it is.
func FuzzInside(f *testing.F) {
	f.Add([]byte(claudeLogin(oldAccess, oldRefresh, start)))
	f.Add([]byte(chatGPTLogin(realJWT(start, "real"), "rt_real")))
	f.Add([]byte(`{"ClAudeAiOAuth":{"ACCessToken":"0"}}`)) // which encoding/json takes for the same key, and the agent doesn't
	f.Fuzz(func(t *testing.T, file []byte) {
		for _, kind := range []forage.LoginKind{forage.LoginClaude, forage.LoginChatGPT} {
			form, err := formOf(kind)
			testdir.Must(t, err)
			files, err := Inside(kind, file, "ACCESS", "REFRESH")
			held, parseErr := form.parse(file)
			if (err == nil) != (parseErr == nil) {
				t.Fatalf("inside: %v, parsed: %v", err, parseErr)
			}
			for _, inside := range files {
				if !json.Valid(inside.Content) {
					t.Errorf("not JSON: %s", inside.Content)
				}
				if len(held.refresh) > 64 && strings.Contains(string(inside.Content), held.refresh) {
					t.Errorf("the token is in %s", inside.Content)
				}
			}
			if parseErr == nil {
				if _, err := form.merge(file, grant{Access: "new"}, start); err != nil {
					t.Errorf("merge: %v", err)
				}
			}
		}
	})
}
