// Package secrets reads the values of secrets from where they are kept on the
// host: when they are used, and never to store them. A value is known only to
// those who call Reveal. Where a value may go is decided elsewhere.
package secrets

import (
	"context"
	"fmt"
	"io"
	"log/slog"
)

// Secret is a value that prints as "[redacted]", whatever prints it. The zero Secret
// is an empty one.
type Secret struct {
	// It is behind a pointer since package fmt asks no method of what is in a field that is
	// not exported, and prints what it finds there: an address then.
	value *string
}

// New makes a Secret of a value.
func New(value string) Secret { return Secret{&value} }

// Reveal is the value.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// Format is for verbs that look past String, such as %d.
func (Secret) Format(f fmt.State, _ rune)   { io.WriteString(f, "[redacted]") }
func (Secret) String() string               { return "[redacted]" }
func (Secret) GoString() string             { return "[redacted]" }
func (Secret) LogValue() slog.Value         { return slog.StringValue("[redacted]") }
func (Secret) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }

// Source gives a value when it is used.
type Source interface {
	// Get reads the value. It may be called at the same time from several
	// requests. Its error says, for the user and never for the agent, what is
	// wrong and holds nothing of the value.
	Get(ctx context.Context) (Secret, error)
}
