package audit

import "time"

// Event is one line of a sandbox's audit log. Seq, Time, Prev and Hash are
// filled in by the log, and Sandbox where it is empty.
type Event struct {
	Seq       uint64    `json:"seq"`  // 1, 2, 3, ... without a gap
	Time      time.Time `json:"time"` // UTC, RFC 3339 with nanoseconds
	Sandbox   string    `json:"sandbox"`
	Kind      Kind      `json:"kind"`
	Verdict   string    `json:"verdict,omitempty"` // "allow", "ask" or "deny"
	Host      string    `json:"host,omitempty"`
	Port      uint16    `json:"port,omitempty"`
	Method    string    `json:"method,omitempty"` // of HTTP; the type of a DNS question ("AAAA")
	Path      string    `json:"path,omitempty"`   // without query
	Rule      string    `json:"rule,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Status    int       `json:"status,omitempty"`     // of the HTTP answer
	Millis    int64     `json:"durationMs,omitempty"` // from the decision to the end
	Secret    string    `json:"secret,omitempty"`     // name of the secret that was put in
	Model     string    `json:"model,omitempty"`      // language model that answered
	TokensIn  int64     `json:"tokensIn,omitempty"`   // those read from and written to a cache included
	TokensOut int64     `json:"tokensOut,omitempty"`
	Cost      float64   `json:"cost,omitempty"`      // of those tokens, in US dollars
	Monitored bool      `json:"monitored,omitempty"` // denied by the rules, and let through by monitor mode
	BytesIn   int64     `json:"bytesIn,omitempty"`   // towards the sandbox
	BytesOut  int64     `json:"bytesOut,omitempty"`  // out of the sandbox
	Prev      string    `json:"prev"`                // Hash of the line before; "" on the first
	Hash      string    `json:"hash"`                // hex SHA-256 over the line with Hash empty
}

// Kind says what an event is about.
type Kind string

// The kinds of event.
const (
	Lifecycle Kind = "lifecycle"
	Exec      Kind = "exec"
	DNS       Kind = "dns"
	Connect   Kind = "connect"
	HTTP      Kind = "http"
	Secret    Kind = "secret"
	Grant     Kind = "grant"
)

// Recorder takes events. Record returns once the event is in the log; an
// error means that it is not, and that what it is about must not go on.
type Recorder interface {
	Record(Event) error
}
