package login

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
)

// readClaims reads the claims of a JSON Web Token (RFC 7519) without looking at
// its signature: nothing is decided by them but when to renew it.
func readClaims(token string, claims any) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return errors.New("not a JSON Web Token")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return errors.New("not a JSON Web Token")
	}
	if json.Unmarshal(payload, claims) != nil {
		return errors.New("not a JSON Web Token")
	}
	return nil
}

// unsigned makes a token of claims that no server takes for one: its signature is none.
func unsigned(claims map[string]any) string {
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err) // strings, numbers and maps of them always marshal
	}
	text := base64.RawURLEncoding.EncodeToString
	return text([]byte(`{"typ":"JWT","alg":"none"}`)) + "." + text(payload) + "." + text([]byte("placeholder of forage"))
}

// insideID is the identity token inside: who the user is, as Codex shows it or sends it on with its
// requests, and no more.
func insideID(held *chatGPTTokens) string {
	var real struct {
		Email   string `json:"email"`
		Profile struct {
			Email string `json:"email"`
		} `json:"https://api.openai.com/profile"`
		Auth map[string]any `json:"https://api.openai.com/auth"`
	}
	_ = readClaims(held.ID, &real) // of a token that can't be read there is nothing to keep
	auth := map[string]any{}
	for _, key := range []string{"chatgpt_plan_type", "chatgpt_user_id", "user_id", "chatgpt_account_id"} {
		if text, _ := real.Auth[key].(string); plain(text) != "" {
			auth[key] = plain(text)
		}
	}
	if real.Auth["chatgpt_account_is_fedramp"] == true {
		auth["chatgpt_account_is_fedramp"] = true
	}
	claims := map[string]any{"exp": far.Unix(), "https://api.openai.com/auth": auth}
	if email := plain(cmp.Or(real.Email, real.Profile.Email)); email != "" {
		claims["email"] = email
	}
	return unsigned(claims)
}
