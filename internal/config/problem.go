package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"forage"
	"forage/internal/term"
)

// Problem is one thing that is wrong with a configuration file.
type Problem struct {
	File   string
	Line   int // from 1; 0: the file as a whole
	Column int // from 1
	What   string
}

func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.What
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.What)
}

// Error is what is wrong with the configuration: at least one problem, in the
// order of the files. It is a forage.ErrUsage. It reads as the first problem.
type Error struct {
	Problems []Problem
}

func (e *Error) Error() string {
	text := e.Problems[0].String()
	if more := len(e.Problems) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// Unwrap makes it a usage error.
func (e *Error) Unwrap() error { return forage.ErrUsage }

// maxProblems bounds what is collected: a file that is wrong throughout needs
// no complete list.
const maxProblems = 50

// problems collects what is wrong.
type problems struct{ list []Problem }

func (p *problems) add(at position, format string, args ...any) {
	if len(p.list) < maxProblems {
		p.list = append(p.list, Problem{at.file.path, at.line(), at.column(), fmt.Sprintf(format, args...)})
	}
}

// err is an *Error with hint, or nil when nothing was wrong.
func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	slices.SortStableFunc(p.list, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column)
	})
	return forage.WithHint(&Error{p.list}, "`forage-ctl config init` writes a commented example with every key")
}

// didYouMean ends a message with the nearest of known, or with all of them
// when they are few and none is near.
func didYouMean(key string, known []string) string {
	if near := term.Nearest(key, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	if len(known) > 0 && len(known) <= 12 {
		sorted := slices.Sorted(slices.Values(known))
		return "; known here: " + strings.Join(sorted, ", ")
	}
	return ""
}
