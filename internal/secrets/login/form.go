package login

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"time"

	"forage"
)

// form is what differs between the kinds of login.
type form struct {
	command  string                    // that logs in on the host
	endpoint string                    // where tokens are renewed
	hosts    []string                  // that log in: nothing there is passed on to
	file     string                    // below the home inside
	locks    func(dir string) []string // that the agent takes to renew, by the file's folder; see hold

	// parse reads the tokens of a login file.
	parse func(file []byte) (tokens, error)
	// merge puts new tokens into a login file, and leaves everything else in it as it is.
	merge func(file []byte, got grant, now time.Time) ([]byte, error)
	// refuses says whether a login must not be used for a path (in lower case) of a host.
	refuses func(host, path string) bool
	// placeholders are what stands for the tokens inside; seed is 32 random-looking bytes.
	placeholders func(seed []byte) (access, refresh string)
	// inside is the agent's files as they look inside, by path below the home.
	inside func(file []byte, access, refresh string) (map[string][]byte, error)
	// answer is the answer to a sandbox that asks for new tokens.
	answer func(file []byte, access, refresh string, now time.Time) (map[string]any, error)
}

// grant is a token endpoint's answer (RFC 6749 section 5.1).
type grant struct {
	Access    string  `json:"access_token"`
	Refresh   string  `json:"refresh_token"`
	IDToken   string  `json:"id_token"`   // OpenID Connect Core section 3.1.3.3
	ExpiresIn float64 `json:"expires_in"` // seconds
	Scope     string  `json:"scope"`
}

// grantMax is how long a token is taken to last at most, whatever the answer says.
const grantMax = 365 * 24 * time.Hour

// life is how long the access token lasts; 0 is unknown.
func (g grant) life() time.Duration {
	seconds := max(0, min(g.ExpiresIn, grantMax.Seconds())) // before it is a Duration, which a large number would overflow
	return time.Duration(seconds * float64(time.Second))
}

func formOf(kind forage.LoginKind) (form, error) {
	switch kind {
	case forage.LoginClaude:
		return claude(), nil
	case forage.LoginChatGPT:
		return chatGPT(), nil
	default:
		return form{}, forage.Errorf(forage.ErrUsage, "%q is not a kind of login", kind)
	}
}

// far is when placeholders end: no agent renews them of its own accord.
var far = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// ends is a time that a file says, in units since 1970; it is far at most.
func ends(since1970 float64, unit time.Duration) time.Time {
	most := float64(far.Unix()) * float64(time.Second/unit)
	count := int64(min(since1970, most))
	perSecond := int64(time.Second / unit)
	return time.Unix(count/perSecond, count%perSecond*int64(unit))
}

// object is a JSON object of which only some fields are ours to change.
type object map[string]json.RawMessage

func (o object) set(key string, value any) error {
	raw, err := json.Marshal(value)
	if err == nil {
		o[key] = raw
	}
	return err
}

// below says whether a path is one of those, or below one.
func below(p string, prefixes ...string) bool {
	p = path.Clean("/"+p) + "/"
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(p, prefix+"/") })
}

// plain is a short word of a login file or of a token's claims; "" if it is
// anything else, which may be a secret.
func plain(word string) string {
	if len(word) > 64 {
		return ""
	}
	for _, c := range word {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("_-:.@+", c)) {
			return ""
		}
	}
	return word
}
