package login

import (
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

// idClaims are the claims of an identity token that Codex shows, or sends on with its requests.
type idClaims struct {
	Email   string `json:"email"`
	Profile struct {
		Email string `json:"email"`
	} `json:"https://api.openai.com/profile"`
	Auth struct {
		Plan    string `json:"chatgpt_plan_type"`
		User    string `json:"chatgpt_user_id"`
		UserID  string `json:"user_id"`
		Account string `json:"chatgpt_account_id"`
		FedRAMP bool   `json:"chatgpt_account_is_fedramp"`
	} `json:"https://api.openai.com/auth"`
}

// insideID is the identity token inside: who the user is, and no more.
func insideID(held *chatGPTTokens) string {
	var real idClaims
	_ = readClaims(held.ID, &real) // of a token that can't be read there is nothing to keep
	auth := map[string]any{}
	for key, value := range map[string]string{
		"chatgpt_plan_type": real.Auth.Plan, "chatgpt_user_id": real.Auth.User,
		"user_id": real.Auth.UserID, "chatgpt_account_id": real.Auth.Account,
	} {
		if value = plain(value); value != "" {
			auth[key] = value
		}
	}
	if real.Auth.FedRAMP {
		auth["chatgpt_account_is_fedramp"] = true
	}
	email := real.Email
	if email == "" {
		email = real.Profile.Email
	}
	claims := map[string]any{"exp": far.Unix(), "https://api.openai.com/auth": auth}
	if email = plain(email); email != "" {
		claims["email"] = email
	}
	return unsigned(claims)
}
