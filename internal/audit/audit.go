// Package audit keeps what a sandbox asked for and what was decided: one JSON
// object a line, appended, each line chained to the one before by its hash.
// A long log is in several files (see SegmentPath).
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
	"unicode/utf8"
)

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
