package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"forage/internal/term"
)

type gcOptions struct {
	dryRun bool
	format format
}

func newGC(a *app) *cobra.Command {
	var o gcOptions
	c := &cobra.Command{
		Use:   "gc",
		Short: "Clean up after a crash",
		Long: `
Compares the records of sandboxes with what really runs, finishes what was
interrupted and removes what belongs to nothing. A stopped sandbox, and work in
a workspace that exists nowhere else, are never touched. What was kept for 30
days goes: what runs did in trees of their own, work that was removed with
--force, automatic snapshots, audit logs of runs, and images that no sandbox
uses. Results of runs go sooner, the oldest first, if all take more room than
keptRunsMax in the configuration, 100G by default.`,
		Example:           "forage-ctl gc --dry-run\nforage-ctl gc",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return runGC(c, a, &o) },
	}
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "say what would be done and do nothing")
	o.format.add(c)
	return c
}

func runGC(c *cobra.Command, a *app, o *gcOptions) error {
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	actions, err := service.GC(c.Context(), o.dryRun)
	if o.format.json(a) {
		return firstError(err, printList(a, actions))
	}
	for _, action := range actions {
		line := term.Escape(action.What)
		if action.Sandbox != "" { // else it belongs to no one sandbox
			line = term.Escape(action.Sandbox) + ": " + line
		}
		fmt.Fprintln(a.out, line)
	}
	return err
}
