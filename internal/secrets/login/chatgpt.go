package login

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"
)

// chatGPTClient is the OAuth client of Codex.
const chatGPTClient = "app_EMoamEEZ73f0CkXaXp7hrann"

// chatGPTLife is how long Codex uses an access token that doesn't say when it ends.
const chatGPTLife = 8 * 24 * time.Hour

// chatGPT is the login of Codex (ChatGPT Plus, Pro and the others), as its version 0.169 keeps it.
func chatGPT() form {
	return form{
		command:      "codex login",
		endpoint:     "https://auth.openai.com/oauth/token",
		hosts:        []string{"auth.openai.com"},
		file:         ".codex/auth.json",
		locks:        func(string) []string { return nil },
		parse:        parseChatGPT,
		merge:        mergeChatGPT,
		refuses:      chatGPTRefuses,
		placeholders: chatGPTPlaceholders,
		inside:       insideChatGPT,
		answer:       answerChatGPT,
	}
}

// chatGPTFile is what is read of ~/.codex/auth.json.
type chatGPTFile struct {
	Mode        string         `json:"auth_mode,omitempty"`
	Key         *string        `json:"OPENAI_API_KEY"`
	Tokens      *chatGPTTokens `json:"tokens"`
	LastRefresh time.Time      `json:"last_refresh"`
}

type chatGPTTokens struct {
	ID      string `json:"id_token"`
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Account string `json:"account_id,omitempty"`
}

func readChatGPT(file []byte) (chatGPTFile, error) {
	var top object // whose keys are told apart by case, as the agent does
	var parsed chatGPTFile
	if json.Unmarshal(file, &top) != nil || json.Unmarshal(file, &parsed) != nil {
		return chatGPTFile{}, errNotJSON
	}
	if _, ok := top["tokens"]; !ok {
		parsed.Tokens = nil
	}
	if parsed.Tokens == nil || parsed.Tokens.Access == "" {
		if parsed.Key != nil && *parsed.Key != "" {
			return chatGPTFile{}, errors.New("holds an API key and no login")
		}
		return chatGPTFile{}, errors.New("holds no login")
	}
	return parsed, nil
}

func parseChatGPT(file []byte) (tokens, error) {
	parsed, err := readChatGPT(file)
	if err != nil {
		return tokens{}, err
	}
	found := tokens{access: parsed.Tokens.Access, refresh: parsed.Tokens.Refresh, client: chatGPTClient}
	var claims struct {
		Expires float64 `json:"exp"` // seconds since 1970 (RFC 7519 section 4.1.4)
	}
	switch err := readClaims(found.access, &claims); {
	case err == nil && claims.Expires > 0:
		found.expires = ends(claims.Expires, time.Second)
	case !parsed.LastRefresh.IsZero():
		found.expires = parsed.LastRefresh.Add(chatGPTLife)
	}
	return found, nil
}

func mergeChatGPT(file []byte, got grant, now time.Time) ([]byte, error) {
	var top, held object
	if json.Unmarshal(file, &top) != nil || json.Unmarshal(top["tokens"], &held) != nil || held == nil {
		return nil, errNotJSON
	}
	err := held.set("access_token", got.Access)
	if got.Refresh != "" {
		err = errors.Join(err, held.set("refresh_token", got.Refresh))
	}
	if got.IDToken != "" {
		err = errors.Join(err, held.set("id_token", got.IDToken))
	}
	err = errors.Join(err, top.set("tokens", held), top.set("last_refresh", now.UTC()))
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(top, "", "  ")
}

// chatGPTRefuses keeps the login for Codex's own work. The same token opens all of
// the account: other conversations, tasks in the cloud, and the apps (mail, files) that are
// connected to it.
func chatGPTRefuses(host, path string) bool {
	const api = "/backend-api"
	return host == "chatgpt.com" && !below(path,
		api+"/codex", api+"/plugins", api+"/ps/plugins",
		api+"/wham/accounts/check", api+"/wham/usage", api+"/wham/settings/user", api+"/wham/config", api+"/wham/profiles/me",
		api+"/wham/workspace-messages", api+"/wham/agent-identities", api+"/wham/security-setup")
}

// chatGPTPlaceholders are a token that says when it ends, which is all that Codex
// reads of it, and one that says nothing.
func chatGPTPlaceholders(seed []byte) (access, refresh string) {
	text := base64.RawURLEncoding.EncodeToString(seed)
	access = unsigned(map[string]any{"exp": far.Unix(), "jti": "forage-" + text[:22]})
	return access, "rt_forage." + text + text[:22]
}

func insideChatGPT(file []byte, access, refresh string) (map[string][]byte, error) {
	parsed, err := readChatGPT(file)
	if err != nil {
		return nil, err
	}
	content, err := json.MarshalIndent(chatGPTFile{
		Mode: "chatgpt",
		Tokens: &chatGPTTokens{
			ID:      insideID(parsed.Tokens),
			Access:  access,
			Refresh: refresh,
			Account: plain(parsed.Tokens.Account),
		},
		LastRefresh: far,
	}, "", "  ")
	if err != nil {
		return nil, err
	}
	return map[string][]byte{".codex/auth.json": content}, nil
}

func answerChatGPT(file []byte, access, refresh string, _ time.Time) (map[string]any, error) {
	parsed, err := readChatGPT(file)
	if err != nil {
		return nil, err
	}
	return map[string]any{"id_token": insideID(parsed.Tokens), "access_token": access, "refresh_token": refresh}, nil
}
