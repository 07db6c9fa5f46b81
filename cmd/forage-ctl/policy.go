package main

import "github.com/spf13/cobra"

func newPolicy(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "policy COMMAND",
		Short: "Ask about network policies",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return usageError(c, "expected a command") },
	}
	c.AddCommand(newPolicySuggest(a))
	return c
}
