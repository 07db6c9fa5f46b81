package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"forage/internal/sandbox/work"
	"forage/internal/term"
)

func newQuarantine(a *app) *cobra.Command {
	var o work.QuarantineOptions
	var f format
	c := &cobra.Command{
		Use:   "quarantine NAME",
		Short: "Move aside what host tools would execute of a workspace",
		Long: `
Moves out of the workspace what is new or changed since the sandbox was made and
what tools of the host execute on the way: on cd, on opening the folder in an
editor, on git status. 'status' names it, and what takes a build, a push or a
start by name, which is moved with --all or --paths only; so is a repository
that was there before. Nothing is deleted: it is said where everything is then.

NAME may be a run that has ended.`,
		Example: `
forage-ctl quarantine work
forage-ctl quarantine work --paths .envrc tools/.vscode`,
		Annotations:       map[string]string{exitNote: "2 7"},
		Args:              nameAndPaths,
		ValidArgsFunction: a.completeName,
		RunE: func(c *cobra.Command, args []string) error {
			o.Paths = append(o.Paths, args[1:]...)
			return runQuarantine(c, a, f, o, args[0])
		},
	}
	c.Flags().BoolVar(&o.All, "all", false, "also what takes a build, a push or a start by name")
	c.Flags().StringArrayVar(&o.Paths, "paths", nil, "only what is at or below these `PATHS` of the workspace")
	f.add(c)
	return c
}

func runQuarantine(c *cobra.Command, a *app, f format, o work.QuarantineOptions, name string) error {
	if o.All && len(o.Paths) > 0 {
		return usageError(c, "--all and --paths exclude one another")
	}
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	moved, err := service.Work.Quarantine(c.Context(), name, o)
	if f.json(a) {
		return firstError(printList(a, moved), err)
	}
	if len(moved) == 0 && err == nil {
		a.note("there is nothing to move aside")
		return nil
	}
	for _, m := range moved {
		if m.Error == "" {
			fmt.Fprintf(a.out, "%s -> %s\n", term.Escape(m.Path), term.Escape(m.To))
		}
	}
	return err
}
