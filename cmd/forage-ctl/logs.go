package main

import (
	"github.com/spf13/cobra"

	"forage/internal/sandbox"
)

func newLogs(a *app) *cobra.Command {
	var o sandbox.LogOptions
	c := &cobra.Command{
		Use:   "logs NAME",
		Short: "Show what the agent's window printed",
		Long: `
Prints the output of the agent's window. Of a program that draws it prints the
text that its window shows, and what has scrolled away; with -f what has changed
when it comes to rest. It is escaped: what came from inside can't drive your
terminal. --raw prints the bytes, to a file or a pipe.`,
		Example:           "forage-ctl logs work -n 50\nforage-ctl logs work -f\nforage-ctl logs work --raw >work.log",
		Annotations:       map[string]string{exitNote: "2"},
		Args:              oneName,
		ValidArgsFunction: a.completeName,
		RunE:              func(c *cobra.Command, args []string) error { return runLogs(c, a, o, args[0]) },
	}
	c.Flags().BoolVarP(&o.Follow, "follow", "f", false, "go on as more is printed, until the sandbox stops")
	c.Flags().BoolVar(&o.Raw, "raw", false, "print the bytes as the agent wrote them")
	c.Flags().IntVarP(&o.Lines, "lines", "n", -1, "show the last `N` lines only")
	c.Flags().IntVar(&o.Lines, "tail", -1, "the same as --lines")
	_ = c.Flags().MarkHidden("tail") // there it is
	return c
}

func runLogs(c *cobra.Command, a *app, o sandbox.LogOptions, name string) error {
	if o.Lines < 0 && (c.Flags().Changed("lines") || c.Flags().Changed("tail")) {
		return usageError(c, "--lines %d: must not be negative", o.Lines)
	}
	_, _, isTerminal := a.screen()
	if o.Raw && isTerminal {
		return usageError(c, "--raw would let the agent drive your terminal: send it to a file or a pipe")
	}
	if isTerminal {
		o.Bell = a.out
	}
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	return service.Logs(c.Context(), name, o, a.out)
}
