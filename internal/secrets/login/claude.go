package login

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"time"
)

// claudeClient is the OAuth client of Claude Code, where the file names none.
const claudeClient = "9d1c250a-e61b-44d9-88ed-5944d1962f5e"

// Prefixes that Claude Code's tokens have.
const (
	claudeAccess  = "sk-ant-oat01-"
	claudeRefresh = "sk-ant-ort01-"
)

// claude is the login of Claude Code (Claude Pro, Max, Team and Enterprise), as its version 2.1
// keeps it.
func claude() form {
	return form{
		command:      "claude",
		endpoint:     "https://platform.claude.com/v1/oauth/token",
		hosts:        []string{"platform.claude.com", "console.anthropic.com"},
		file:         ".claude/.credentials.json",
		locks:        claudeLocks,
		parse:        parseClaude,
		merge:        mergeClaude,
		refuses:      claudeRefuses,
		placeholders: claudePlaceholders,
		inside:       insideClaude,
		answer:       answerClaude,
	}
}

// claudeLocks are the lock of this version, and the one that older ones had.
func claudeLocks(dir string) []string {
	locks := []string{filepath.Join(dir, ".oauth_refresh.lock")}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		locks = append(locks, real+".lock")
	}
	return locks
}

// claudeFile is what there is of ~/.claude/.credentials.json inside.
type claudeFile struct {
	OAuth *claudeOAuth `json:"claudeAiOauth"`
}

type claudeOAuth struct {
	AccessToken      string   `json:"accessToken"`
	RefreshToken     string   `json:"refreshToken"`
	ExpiresAt        float64  `json:"expiresAt"` // milliseconds since 1970; 0 is never
	Scopes           []string `json:"scopes"`
	SubscriptionType string   `json:"subscriptionType,omitempty"`
	RateLimitTier    string   `json:"rateLimitTier,omitempty"`
	ClientID         string   `json:"clientId,omitempty"`
}

func readClaude(file []byte) (*claudeOAuth, error) {
	var top object // whose keys are told apart by case, as the agent does
	var oauth claudeOAuth
	if json.Unmarshal(file, &top) != nil {
		return nil, errNotJSON
	}
	if raw, ok := top["claudeAiOauth"]; ok && json.Unmarshal(raw, &oauth) != nil {
		return nil, errNotJSON
	}
	// Claude Code itself empties the tokens of a login that has been revoked.
	if oauth.AccessToken == "" {
		return nil, errors.New("holds no login")
	}
	return &oauth, nil
}

func parseClaude(file []byte) (tokens, error) {
	oauth, err := readClaude(file)
	if err != nil {
		return tokens{}, err
	}
	found := tokens{access: oauth.AccessToken, refresh: oauth.RefreshToken, client: oauth.ClientID, scopes: oauth.Scopes}
	found.client = cmp.Or(found.client, claudeClient)
	if oauth.ExpiresAt > 0 {
		found.expires = ends(oauth.ExpiresAt, time.Millisecond)
	}
	return found, nil
}

func mergeClaude(file []byte, got grant, now time.Time) ([]byte, error) {
	var top, oauth object
	if json.Unmarshal(file, &top) != nil || json.Unmarshal(top["claudeAiOauth"], &oauth) != nil || oauth == nil {
		return nil, errNotJSON
	}
	err := oauth.set("accessToken", got.Access)
	if got.Refresh != "" {
		err = errors.Join(err, oauth.set("refreshToken", got.Refresh))
	}
	if life := got.life(); life > 0 {
		err = errors.Join(err, oauth.set("expiresAt", now.Add(life).UnixMilli()))
	}
	if scopes := strings.Fields(got.Scope); len(scopes) > 0 {
		err = errors.Join(err, oauth.set("scopes", scopes))
	}
	err = errors.Join(err, top.set("claudeAiOauth", oauth))
	if err != nil {
		return nil, err
	}
	return json.Marshal(top)
}

// claudeRefuses keeps the login for Claude Code's own work. The same token opens all of
// the account: it makes API keys, which stay, reaches sessions and agents in the cloud, and writes
// the memory and the skills that Claude Code on other machines goes by.
func claudeRefuses(host, path string) bool {
	return host == "api.anthropic.com" && !below(path,
		"/v1/messages", "/v1/models", "/v1/complete",
		"/api/hello", "/api/features", "/api/eval", "/api/event_logging", "/api/web/domain_info", "/mcp-registry",
		"/api/oauth/profile", "/api/oauth/usage", "/api/oauth/validate", "/api/oauth/claude_cli/roles", "/api/oauth/account/settings",
		"/api/claude_cli", "/api/claude_code_grove", "/api/claude_code_penguin_mode", "/api/organization/claude_code_first_token_date",
		"/api/claude_code/settings", "/api/claude_code/policy_limits", "/api/claude_code/metrics", "/api/claude_code/organizations/metrics_enabled")
}

func claudePlaceholders(seed []byte) (access, refresh string) {
	text := base64.RawURLEncoding.EncodeToString
	// As long as the real ones.
	access = claudeAccess + text(seed[:16]) + text(seed)[:22] + text(seed)[:43] + "-forageAA"
	refresh = claudeRefresh + text(seed[16:]) + text(seed)[:22] + text(seed)[:43] + "-forageAA"
	return access, refresh
}

// insideClaude keeps the login's kind and what it may do. Logins of MCP servers, which
// are in the same file, stay outside.
func insideClaude(file []byte, access, refresh string) (map[string][]byte, error) {
	oauth, err := readClaude(file)
	if err != nil {
		return nil, err
	}
	credentials, err := json.Marshal(claudeFile{&claudeOAuth{
		AccessToken:      access,
		RefreshToken:     refresh,
		ExpiresAt:        float64(far.UnixMilli()),
		Scopes:           claudeScopes(oauth.Scopes),
		SubscriptionType: plain(oauth.SubscriptionType),
		RateLimitTier:    plain(oauth.RateLimitTier),
	}})
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		".claude/.credentials.json": credentials,
		// Without it Claude Code asks its terminal for a theme and a login first.
		".claude.json": []byte(`{"hasCompletedOnboarding":true}`),
	}, nil
}

// claudeScopes leaves out what the agent has no use for inside, such as making API keys.
func claudeScopes(scopes []string) []string {
	kept := []string{}
	for _, scope := range scopes {
		if strings.HasPrefix(scope, "user:") && plain(scope) == scope {
			kept = append(kept, scope)
		}
	}
	return kept
}

func answerClaude(file []byte, access, refresh string, now time.Time) (map[string]any, error) {
	oauth, err := readClaude(file)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"token_type":    "Bearer",
		"access_token":  access,
		"refresh_token": refresh,
		"expires_in":    int64(far.Sub(now) / time.Second),
		"scope":         strings.Join(claudeScopes(oauth.Scopes), " "),
	}, nil
}
