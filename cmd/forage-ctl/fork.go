package main

import (
	"github.com/spf13/cobra"

	"forage"
	"forage/internal/term"
)

func newFork(a *app) *cobra.Command {
	var f format
	c := &cobra.Command{
		Use:   "fork NAME NEW",
		Short: "Make a second sandbox from the state of a first",
		Long: `
Makes the sandbox NEW as NAME was made, on a branch of its own (forage-NEW), and
starts it with the state of NAME's workspace: commits, files as they are, with
what is ignored, index and stash. NAME goes on as it is; what is in its memory,
its home folder and /tmp is not taken along.

Of a worktree, a jj workspace or a clone it makes another one. Of a folder that
is mounted as it is, it makes a clone, or a jj workspace where there is no .git.
Without a repository it makes a copy beside it, FOLDER-NEW, which is yours: down
leaves it. Read-only parts are shared.`,
		Example:           "forage-ctl fork work other-idea",
		Annotations:       map[string]string{exitNote: "2 4 5 6 7 8"},
		ValidArgsFunction: a.completeName,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError(c, "which sandbox, and what is the new one called?")
			}
			return firstError(forage.CheckName(args[0]), forage.CheckName(args[1]))
		},
		RunE: func(c *cobra.Command, args []string) error { return runFork(c, a, f, args[0], args[1]) },
	}
	f.add(c)
	return c
}

func runFork(c *cobra.Command, a *app, f format, name, other string) error {
	service, err := a.service()
	if err != nil {
		return err
	}
	status, err := service.Fork(c.Context(), name, other)
	if err != nil {
		return err
	}
	if f.json(a) {
		return term.JSON(a.out, status)
	}
	return a.printUp(status)
}
