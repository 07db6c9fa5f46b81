package main

import (
	"github.com/spf13/cobra"
)

func newStop(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "stop NAME",
		Short: "Stop a sandbox and keep it",
		Long: `
Ends everything that runs inside. The workspace, the home and the sandbox's
record stay; what was written elsewhere inside does not. Stopping a sandbox
that is stopped already succeeds.`,
		Example:           "forage-ctl stop work",
		Annotations:       map[string]string{exitNote: "2"},
		Args:              oneName,
		ValidArgsFunction: a.completeName,
		RunE:              func(c *cobra.Command, args []string) error { return runStop(c, a, args[0]) },
	}
}

func runStop(c *cobra.Command, a *app, name string) error {
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	return service.Stop(c.Context(), name)
}
