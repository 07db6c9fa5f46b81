package main

import (
	"strings"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/policy"
	"forage/internal/sandbox/plan"
	"forage/internal/term"
)

type networkOptions struct {
	allow, remove []string
	monitor       string // "", on or off
	allowLast     bool
	format        format
}

func newNetwork(a *app) *cobra.Command {
	var o networkOptions
	c := &cobra.Command{
		Use:   "network NAME [full|restricted|none]",
		Short: "Show or change what a sandbox may reach",
		Long: `
Without a change, prints the network policy. A change takes effect at once: what
is under way and not allowed any more is cut, and nothing else that runs inside.

  none        nothing, not even DNS
  restricted  the allowed hosts
  full        any public name or address over TCP; no LAN, no host, no metadata

A set of hosts stands for several: @npm @pypi @go @cargo @maven @rubygems
@debian @nix are the registries that your own tools are configured for, @github
@gitlab @docker @huggingface what their names say, and [hostSets] in the
configuration names more.

With --monitor on, what the rules deny is let through and recorded as what would
have been denied; what no rule can allow stays denied.`,
		Example: `
forage-ctl network work
forage-ctl network work restricted --allow '*.example.com'
forage-ctl network work --allow host.forage.internal:5432
forage-ctl network work --allow @npm --allow @github
forage-ctl network work --allow-last
forage-ctl network work --remove github.com
forage-ctl network work --monitor on
forage-ctl network work none`,
		Annotations: map[string]string{exitNote: "2 6 7 8"},
		Args:        networkArgs,
		ValidArgsFunction: func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return networkModes(), cobra.ShellCompDirectiveNoFileComp
			}
			return a.completeName(c, args, prefix)
		},
		RunE: func(c *cobra.Command, args []string) error { return runNetwork(c, a, &o, args) },
	}
	c.Flags().StringArrayVar(&o.allow, "allow", nil, "allow `HOST[:PORT]`, '*.suffix', an address or @SET (repeatable)")
	c.Flags().BoolVar(&o.allowLast, "allow-last", false, "allow what was refused last, as shown by status")
	c.Flags().StringArrayVar(&o.remove, "remove", nil, "take the rule for `HOST[:PORT]` away again (repeatable)")
	c.Flags().Var(choice{&o.monitor, []string{"on", "off"}}, "monitor", "let through and record what the rules deny")
	o.format.add(c)
	return c
}

func networkArgs(c *cobra.Command, args []string) error {
	if len(args) < 2 {
		return oneName(c, args)
	}
	var mode string
	if err := (choice{&mode, networkModes()}).Set(args[1]); err != nil {
		return usageError(c, "%q: %w", args[1], err)
	}
	if len(args) > 2 {
		return usageError(c, "unexpected argument %q", args[2])
	}
	return forage.CheckName(args[0])
}

func runNetwork(c *cobra.Command, a *app, o *networkOptions, args []string) error {
	service, err := a.service()
	if err != nil {
		return err
	}
	change := plan.NetworkChange{Allow: o.allow, Remove: o.remove, AllowLast: o.allowLast}
	if len(args) == 2 {
		change.Mode = forage.NetworkMode(args[1])
	}
	if o.monitor != "" {
		on := o.monitor == "on"
		change.Monitor = &on
	}
	network, err := service.Network(c.Context(), args[0], change)
	if err != nil {
		return err
	}
	if o.format.json(a) {
		return term.JSON(a.out, network)
	}
	return printNetwork(a, network)
}

func printNetwork(a *app, network forage.Network) error {
	table := term.NewTable("MODE", string(network.Mode))
	if network.Monitor {
		table.Row("MONITOR", "on")
	}
	for _, host := range network.Allow {
		if hosts := network.Sets[host]; len(hosts) > 0 {
			host += ": " + strings.Join(hosts, " ")
		}
		table.Row("ALLOW", host)
	}
	for _, rule := range network.Rules {
		table.Row("RULE", ruleLine(rule))
	}
	return table.Write(a.out)
}

// ruleLine is a rule in one line, as decisions name it.
func ruleLine(r forage.Rule) string {
	if r.Deny {
		return policy.RuleText(r)
	}
	return "allow " + policy.RuleText(r)
}
