package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"forage"
	"forage/internal/config"
	"forage/internal/store"
	"forage/internal/term"
)

// report is the only place where errors are printed.
func (a *app) report(ctx context.Context, err error) int {
	if err == nil {
		return a.status
	}
	code := forage.ExitCode(err)
	if a.status != 0 { // the command inside has ended, and its status counts
		code = a.status
	}
	if by, ok := errors.AsType[signalError](context.Cause(ctx)); ok && (errors.Is(err, context.Canceled) || errors.Is(err, by)) {
		if err == by { // and nothing that had to be undone failed
			return by.exitCode()
		}
		code = by.exitCode()
	}
	fmt.Fprintf(a.err, "forage-ctl: %s\n", oneLine(err.Error()))
	if wrong, ok := errors.AsType[*config.Error](err); ok {
		for _, problem := range wrong.Problems[1:] {
			fmt.Fprintf(a.err, "  %s\n", oneLine(problem.String()))
		}
	}
	if hint := store.Hint(err); hint != "" {
		fmt.Fprintf(a.err, "hint: %s\n", oneLine(hint))
	}
	return code
}

// oneLine is text for one line of a terminal. Errors that were joined hold line
// ends, and so may text that comes from inside: neither may look like a line of ours.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return term.Escape(strings.Join(lines, "; "))
}
