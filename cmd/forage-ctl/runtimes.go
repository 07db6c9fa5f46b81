package main

import (
	"github.com/spf13/cobra"

	"forage/internal/term"
)

func newRuntimes(a *app) *cobra.Command {
	var f format
	c := &cobra.Command{
		Use:   "runtimes",
		Short: "List what can isolate, and whether it works here",
		Long: `
Lists the runtimes, whether this host can run each, and what each can enforce.
Templates that ask for more than a runtime can enforce are refused by it.`,
		Example:           "forage-ctl runtimes\nforage-ctl runtimes -o json",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return runRuntimes(c, a, f) },
	}
	f.add(c)
	return c
}

func runRuntimes(c *cobra.Command, a *app, f format) error {
	service, err := a.service()
	if err != nil {
		return err
	}
	runtimes, err := service.RuntimeList(c.Context())
	if err != nil {
		return err
	}
	if f.json(a) {
		return printList(a, runtimes)
	}
	table := term.NewTable("NAME", "WORKS", "ENFORCES", "DESCRIPTION")
	for _, r := range runtimes {
		table.Row(r.Name, works(r.Works, true), enforces(r.Capabilities), r.Description)
	}
	return table.Write(a.out)
}
