// Package audit keeps what a sandbox asked for and what was decided: one JSON
// object a line, appended, each line chained to the one before by its hash.
// Log writes, Verify checks, Events and Follow read. It decides nothing and prints
// nothing.
//
// The chain shows that a line was changed, removed or reordered. It is not keyed, so the user's own
// account can make a new chain: it guards against accidents. What runs inside a sandbox never
// reaches the file. A log that was cut at its end is told by its head file (see HeadPath).
//
// A line is in the kernel when Record returns, so it outlives the death of any
// process of ours. It is not synced to the disk: a machine that loses power may
// lose the last seconds.
package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

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

// Bounds of the text fields of an event, in bytes; what is longer is cut and
// ends in "...". They bound a line to well below maxLine.
const (
	maxHost   = 300
	maxMethod = 32
	maxPath   = 1024
	maxRule   = 320
	maxReason = 512
	maxLine   = 32 << 10
)

// bounded is e with its text fields cut to their bounds.
func bounded(e Event) Event {
	e.Sandbox = cut(e.Sandbox, maxHost)
	e.Kind = Kind(cut(string(e.Kind), maxMethod))
	e.Verdict = cut(e.Verdict, maxMethod)
	e.Host = cut(e.Host, maxHost)
	e.Method = cut(e.Method, maxMethod)
	e.Path = cut(e.Path, maxPath)
	e.Rule = cut(e.Rule, maxRule)
	e.Reason = cut(e.Reason, maxReason)
	e.Secret = cut(e.Secret, maxHost)
	e.Model = cut(e.Model, maxHost)
	return e
}

func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	s = s[:limit-3]
	for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	if n := len(s); n > 0 && s[n-1] >= utf8.RuneSelf {
		s = s[:n-1] // the first byte of a rune that was cut
	}
	return s + "..."
}

const hashTail = `"hash":""}` // how a line ends before its hash is known

// appendLine appends e's line, without the newline, and sets e.Hash. The line is ASCII alone: no
// control and no bidirectional character reaches a terminal that shows the file as it is.
func appendLine(b []byte, e *Event) ([]byte, error) {
	begin := len(b)
	e.Hash = ""
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	for len(text) > 0 {
		if text[0] < 0x7f {
			b, text = append(b, text[0]), text[1:]
			continue
		}
		r, size := utf8.DecodeRune(text)
		for _, unit := range utf16.Encode([]rune{r}) {
			b = fmt.Appendf(b, `\u%04x`, unit)
		}
		text = text[size:]
	}
	sum := sha256.Sum256(b[begin:])
	e.Hash = hex.EncodeToString(sum[:])
	return append(append(b[:len(b)-2], e.Hash...), `"}`...), nil
}

// decode reads a line, without its newline, and checks its own hash.
func decode(line []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, fmt.Errorf("not an event: %w", err)
	}
	body, ok := strings.CutSuffix(string(line), `"hash":"`+e.Hash+`"}`)
	if !ok || len(e.Hash) != 2*sha256.Size {
		return e, fmt.Errorf("the line does not end in its hash")
	}
	sum := sha256.Sum256([]byte(body + hashTail))
	if hex.EncodeToString(sum[:]) != e.Hash {
		return e, fmt.Errorf("the line was changed: it does not match its hash")
	}
	return e, nil
}
