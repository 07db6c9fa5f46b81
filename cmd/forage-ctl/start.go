package main

import (
	"github.com/spf13/cobra"
)

func newStart(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "start NAME",
		Short: "Start a stopped sandbox again",
		Long: `
Starts the sandbox as it was made: same plan, network policy, keys and home.
In a running sandbox it starts the agent's window again if that has ended.`,
		Example:           "forage-ctl start work",
		Annotations:       map[string]string{exitNote: "2 4 5 6 7"},
		Args:              oneName,
		ValidArgsFunction: a.completeName,
		RunE:              func(c *cobra.Command, args []string) error { return runStart(c, a, args[0]) },
	}
}

func runStart(c *cobra.Command, a *app, name string) error {
	service, err := a.service()
	if err != nil {
		return err
	}
	return service.Start(c.Context(), name)
}

func newRestart(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "restart NAME",
		Short: "Stop a sandbox and start it again",
		Long: `
Is 'stop' and then 'start': everything that runs inside ends, and the agent is
started afresh, with the same plan.`,
		Example:           "forage-ctl restart work",
		Annotations:       map[string]string{exitNote: "2 4 5 6 7"},
		Args:              oneName,
		ValidArgsFunction: a.completeName,
		RunE: func(c *cobra.Command, args []string) error {
			if err := runStop(c, a, args[0]); err != nil {
				return err
			}
			return runStart(c, a, args[0])
		},
	}
}
