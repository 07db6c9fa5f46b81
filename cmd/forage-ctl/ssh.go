package main

import "github.com/spf13/cobra"

func newSSH(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "ssh NAME",
		Short: "Attach to the agent's session",
		Long: `
Attaches your terminal to the sandbox's tmux session, where the agent is
window 0. Detach with Ctrl-b d: the agent goes on.`,
		Example:           "forage-ctl ssh work",
		Annotations:       map[string]string{exitNote: "2 128+N"},
		Args:              oneName,
		ValidArgsFunction: a.completeName,
		RunE:              func(c *cobra.Command, args []string) error { return runSSH(c, a, args[0]) },
	}
}

func runSSH(c *cobra.Command, a *app, name string) error {
	stdio, err := wholeTerminal(c, a)
	if err != nil {
		return err
	}
	service, err := a.service()
	if err != nil {
		return err
	}
	a.status, err = service.Attach(c.Context(), name, stdio)
	return err
}
