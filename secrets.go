package forage

// Binding ties a secret to the requests that it is put into. It never holds
// the value: that is read on the host, when a request needs it.
type Binding struct {
	Secret string       `json:"secret"` // name of the secret, as configured
	Source SecretSource `json:"source"`
	// Placeholder stands for the value inside the sandbox. It has the shape that
	// agents expect of the value, and is no secret.
	Placeholder string `json:"placeholder,omitempty"`
	// Refresh is the placeholder of a login's refresh token.
	Refresh string      `json:"refresh,omitempty"`
	Uses    []SecretUse `json:"uses"`
}

// SecretSource says where a secret's value is. Exactly one field is set.
type SecretSource struct {
	File    string   `json:"file,omitempty"`    // absolute path
	Env     string   `json:"env,omitempty"`     // variable of the caller's environment, taken when the sandbox starts
	Command []string `json:"command,omitempty"` // argv; what it writes to its standard output
	Keyring string   `json:"keyring,omitempty"` // "service/user" in the Secret Service
	Login   *Login   `json:"login,omitempty"`   // an agent's own login on the host
}

// LoginKind names the form of an agent's login file.
type LoginKind string

// The kinds of login.
const (
	LoginClaude  LoginKind = "claude"  // Claude Code's ~/.claude/.credentials.json
	LoginChatGPT LoginKind = "chatgpt" // Codex's ~/.codex/auth.json
)

// Login is an agent's OAuth login, kept in the agent's own file on the host.
// Its tokens are renewed there.
type Login struct {
	Kind LoginKind `json:"kind"`
	File string    `json:"file"` // absolute path on the host
}

// SecretPlace says what part of a request carries a secret.
type SecretPlace string

// The places. Everywhere but in PlaceReplace, the value is put in whether or not the
// request brought a placeholder, and over whatever it brought.
const (
	PlaceHeader  SecretPlace = "header"      // the header Name, as Format
	PlaceBearer  SecretPlace = "bearer"      // Authorization: Bearer VALUE (RFC 6750)
	PlaceBasic   SecretPlace = "basic"       // Authorization: Basic USER:VALUE (RFC 7617)
	PlaceQuery   SecretPlace = "query"       // the query parameter Name
	PlaceReplace SecretPlace = "placeholder" // wherever the placeholder is in the header Name
	PlaceSigV4   SecretPlace = "aws-sigv4"   // signed again (AWS Signature Version 4); the value is KEYID:SECRET[:SESSION]
)

// SecretUse is one way in which a secret is put into requests.
type SecretUse struct {
	// Hosts are where it may go: "host", "*.suffix", each with ":port" if that is not 443.
	Hosts  []string    `json:"hosts"`
	Place  SecretPlace `json:"place"`
	Name   string      `json:"name,omitempty"`   // of a header or query parameter
	Format string      `json:"format,omitempty"` // of a header, with "{}" for the value; "" is the value alone
	User   string      `json:"user,omitempty"`   // of PlaceBasic
	// Gateway is the first part of the path under which the first of Hosts is
	// reached in the clear at the proxy's own address; "" is none.
	Gateway string `json:"gateway,omitempty"`
}

// FramingHeaders say how a request is sent, where it goes and where it ends (RFC 9110, RFC 9112),
// in lower case. None of them can carry a secret.
var FramingHeaders = [...]string{
	"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect",
	"keep-alive", "proxy-connection", "content-encoding", "accept-encoding",
}

// SecretMode says how agents get their credentials.
type SecretMode string

// The secret modes.
const (
	SecretsInjected SecretMode = ""        // by egress; inside there are placeholders
	SecretsWrapped  SecretMode = "wrapper" // the values are inside, in files that a wrapper of each agent reads
)

// SecretsPath is where the files of SecretsWrapped are inside, one for each secret.
const SecretsPath = "/run/secrets"
