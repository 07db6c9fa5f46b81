package main

import (
	"github.com/spf13/cobra"
)

func newReset(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "reset NAME",
		Short: "Start a sandbox afresh, with its workspace",
		Long: `
Stops the sandbox, throws away its home and all else that it wrote outside its
workspace and mounts, and starts it as it was made. A snapshot of the workspace
is made before.`,
		Example:           "forage-ctl reset work",
		Annotations:       map[string]string{exitNote: "2 4 5 6 7"},
		Args:              oneName,
		ValidArgsFunction: a.completeName,
		RunE:              func(c *cobra.Command, args []string) error { return runReset(c, a, args[0]) },
	}
}

func runReset(c *cobra.Command, a *app, name string) error {
	service, err := a.service()
	if err != nil {
		return err
	}
	return service.Reset(c.Context(), name)
}
