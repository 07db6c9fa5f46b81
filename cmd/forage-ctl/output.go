package main

import (
	"github.com/spf13/cobra"
	xterm "golang.org/x/term"

	"forage/internal/term"
)

// format is how a command prints its result.
type format struct{ name string }

// add gives c the -o flag.
func (f *format) add(c *cobra.Command) {
	f.name = "table"
	c.Flags().VarP(choice{&f.name, []string{"table", "json"}}, "output", "o", "how to print the result")
}

// json says whether the result is to be JSON: --json means that too.
func (f format) json(a *app) bool { return f.name == "json" || a.json }

// printList prints a list as JSON: one that is empty is [], never null.
func printList[T any](a *app, items []T) error {
	if items == nil {
		items = []T{}
	}
	return term.JSON(a.out, items)
}

// interactive says whether a person sits at both ends.
func (a *app) interactive() bool {
	out, ok := a.out.(interface{ Fd() uintptr })
	return ok && xterm.IsTerminal(int(a.in.Fd())) && xterm.IsTerminal(int(out.Fd()))
}

// firstError returns the first error that is one.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
