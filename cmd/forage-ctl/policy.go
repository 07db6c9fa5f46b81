package main

import "github.com/spf13/cobra"

func newPolicy(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "policy test|recommend",
		Short: "Explain a network policy, or make one of a recording",
		Long: `
A template allows hosts, and by rules some of the requests to a host: by method,
path, or what git does. See the how-to about rules.`,
		Example: `
forage-ctl policy test claude GET https://api.github.com/repos/acme/site
forage-ctl policy recommend work`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(c, "test or recommend?")
			}
			return usageError(c, "it can't %q", args[0])
		},
	}
	c.AddCommand(newPolicyTest(a), newPolicyRecommend(a))
	return c
}
