package forage

import (
	"errors"
	"fmt"
)

// What can go wrong, as kinds that a caller may test for with errors.Is. Each
// has one exit code (see ExitCode).
var (
	ErrUsage            = errors.New("usage")
	ErrNotFound         = errors.New("sandbox not found")
	ErrTemplateNotFound = errors.New("template not found")
	ErrNoPort           = errors.New("no port left")
	ErrStart            = errors.New("sandbox start failed")
	ErrUnsupported      = errors.New("not supported")
	ErrRefused          = errors.New("refused")
	ErrDenied           = errors.New("denied by policy")
)

// exitCodes holds the exit code of each kind, in the order in which they are
// tried: ErrStart last, since a start fails for a reason, which says more.
var exitCodes = [...]struct {
	kind error
	code int
}{
	{ErrUsage, 64},
	{ErrNotFound, 2},
	{ErrTemplateNotFound, 3},
	{ErrNoPort, 4},
	{ErrUnsupported, 6},
	{ErrRefused, 7},
	{ErrDenied, 8},
	{ErrStart, 5},
}

// ExitCode is the exit code that stands for err: 0 for nil, 1 for an error of
// no particular kind.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	for _, entry := range exitCodes {
		if errors.Is(err, entry.kind) {
			return entry.code
		}
	}
	return 1
}

// KindOf is the kind of error that an exit code stands for; nil for a code of
// no particular kind.
func KindOf(code int) error {
	for _, entry := range exitCodes {
		if entry.code == code {
			return entry.kind
		}
	}
	return nil
}

// kindError is a message of a kind: it reads as the message alone.
type kindError struct {
	err  error
	kind error
}

func (e *kindError) Error() string   { return e.err.Error() }
func (e *kindError) Unwrap() []error { return []error{e.err, e.kind} }

// Errorf makes an error that reads as fmt.Errorf(format, args...) and is also
// of the given kind, if that is not nil.
func Errorf(kind error, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if kind == nil {
		return err
	}
	return &kindError{err: err, kind: kind}
}

type hintError struct {
	error
	hint func() string
}

func (e *hintError) Unwrap() error { return e.error }

// WithHint adds what the user can do next to err, if there is an err and a
// hint. The hint is not part of the
// error's text; the command prints it on a line of its own.
func WithHint(err error, hint string) error {
	if err == nil || hint == "" {
		return err
	}
	return &hintError{err, func() string { return hint }}
}

// WithLateHint is WithHint for a hint that costs something: it is looked for only when it is asked
// for.
func WithLateHint(err error, hint func() string) error { return &hintError{err, hint} }

// HintWritableState is what to do where the state folder takes nothing.
const HintWritableState = "the state folder must be writable; FORAGE_STATE_DIR can name another one"

// Hint returns the outermost hint in err's chain, or "".
func Hint(err error) string {
	var h *hintError
	if errors.As(err, &h) {
		return h.hint()
	}
	return ""
}
