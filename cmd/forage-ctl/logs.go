package main

import (
	"github.com/spf13/cobra"

	"forage/internal/sandbox"
	"forage/internal/term"
)

func newLogs(a *app) *cobra.Command {
	var o sandbox.LogOptions
	c := &cobra.Command{
		Use:   "logs NAME",
		Short: "Show what the agent's window printed",
		Long: `
Prints the output of the agent's window, escaped: what came from inside can't
drive your terminal.`,
		Example:           "forage-ctl logs work -n 50\nforage-ctl logs work -f",
		Annotations:       map[string]string{exitNote: "2"},
		Args:              oneName,
		ValidArgsFunction: a.completeName,
		RunE:              func(c *cobra.Command, args []string) error { return runLogs(c, a, o, args[0]) },
	}
	c.Flags().BoolVarP(&o.Follow, "follow", "f", false, "go on as more is printed, until the sandbox stops")
	c.Flags().IntVarP(&o.Lines, "lines", "n", -1, "show the last `N` lines only")
	return c
}

func runLogs(c *cobra.Command, a *app, o sandbox.LogOptions, name string) error {
	if c.Flags().Changed("lines") && o.Lines < 0 {
		return usageError(c, "--lines %d: must not be negative", o.Lines)
	}
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	return service.Logs(c.Context(), name, o, term.NewWriter(a.out))
}
