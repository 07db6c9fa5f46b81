package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"forage"
)

type downOptions struct {
	all   bool
	force bool
}

func newDown(a *app) *cobra.Command {
	var o downOptions
	c := &cobra.Command{
		Use:   "down NAME... | --all",
		Short: "Remove sandboxes",
		Long: `
Stops the sandboxes and removes all that Forage made for them: worktrees, jj
workspaces and clones too, with the branch forage-NAME once it is merged. A
workspace that is your own folder is never touched.

While work would be lost, down says which and refuses. With --force it keeps
that work for 30 days, says where, and removes the sandbox, even one whose
record can't be read.`,
		Example: `
forage-ctl down work
forage-ctl down --all`,
		Annotations: map[string]string{exitNote: "2 7"},
		Args: func(c *cobra.Command, args []string) error {
			if o.all == (len(args) > 0) {
				return usageError(c, "give either names or --all")
			}
			for _, name := range args {
				if err := forage.CheckName(name); err != nil {
					return err
				}
			}
			return nil
		},
		ValidArgsFunction: a.completeNames,
		RunE:              func(c *cobra.Command, args []string) error { return runDown(c.Context(), a, &o, args) },
	}
	c.Flags().BoolVar(&o.all, "all", false, "remove every sandbox")
	c.Flags().BoolVarP(&o.force, "force", "f", false, "also with unsaved work, which is kept for 30 days, or without a readable record")
	return c
}

func runDown(ctx context.Context, a *app, o *downOptions, names []string) error {
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	var failed []error
	if o.all { // those whose records can be read, whatever is wrong with others
		names, err = service.Names()
		failed = append(failed, err)
	}
	for _, name := range names {
		failed = append(failed, service.Down(ctx, name, o.force))
	}
	return errors.Join(failed...)
}
