package main

import "github.com/spf13/cobra"

func newShell(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "shell NAME",
		Short: "Open a shell in a new window of the session",
		Long: `
Opens a window in the sandbox's tmux session and attaches to it. Leave it with
'exit', or detach with Ctrl-b d and let it run.`,
		Example:           "forage-ctl shell work",
		Annotations:       map[string]string{exitNote: "2 128+N"},
		Args:              oneName,
		ValidArgsFunction: a.completeName,
		RunE:              func(c *cobra.Command, args []string) error { return runShell(c, a, args[0]) },
	}
}

func runShell(c *cobra.Command, a *app, name string) error {
	stdio, err := wholeTerminal(c, a)
	if err != nil {
		return err
	}
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	a.status, err = service.Shell(c.Context(), name, stdio)
	return err
}
