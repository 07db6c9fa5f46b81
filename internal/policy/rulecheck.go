package policy

import (
	"errors"
	"fmt"
	"strings"

	"forage"
)

// RuleError says what is wrong with a rule, and where in it.
type RuleError struct {
	Path []any // keys (string) and indexes (int), as in the configuration: "git", "push", 0; none is the rule as a whole
	Err  error
}

func (e *RuleError) Error() string {
	if len(e.Path) == 0 {
		return e.Err.Error()
	}
	var at strings.Builder
	for i, step := range e.Path {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&at, "[%d]", step)
		case string:
			if i > 0 {
				at.WriteByte('.')
			}
			at.WriteString(step)
		}
	}
	return at.String() + ": " + e.Err.Error()
}

func (e *RuleError) Unwrap() error { return e.Err }

func wrongRule(err error, path ...any) error {
	if err == nil {
		return nil
	}
	return &RuleError{path, err}
}

// CheckRule says what is wrong with a rule, as a *RuleError; nil if it means something.
func CheckRule(r forage.Rule) error {
	_, err := compileRule(r)
	return err
}

// checkShape checks what the parts of a rule mean together.
func checkShape(r forage.Rule) error {
	switch {
	case r.Host == "":
		return wrongRule(errors.New("a rule needs a host"))
	case r.Git == nil:
		return nil
	case r.Deny:
		return wrongRule(errors.New("git allows and can't be denied: expected paths, or a rule without deny"), "git")
	case len(r.Methods) > 0:
		return wrongRule(errors.New("git has methods of its own: expected a rule for each"), "methods")
	case len(r.Paths) > 0:
		return wrongRule(errors.New("git has paths of its own: expected a rule for each"), "paths")
	case len(r.Git.Repos) == 0:
		return wrongRule(errors.New(`expected repos = ["OWNER/NAME"] that may be fetched from`), "git")
	}
	return nil
}

// checkMethod takes a method of HTTP, a token in upper case (RFC 9110, 9.1).
func checkMethod(method string) error {
	if method == "" || len(method) > 32 || strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
		return fmt.Errorf("%.80q: expected a method in upper case, such as GET", method)
	}
	return nil
}
