package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"forage/internal/config"
	"forage/internal/sandbox"
)

// completeName offers the sandboxes for a command that takes one.
func (a *app) completeName(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeNames(c, args, prefix)
}

// completeNames offers the sandboxes that args does not name yet.
func (a *app) completeNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	service, err := a.open(func(error) {}) // the command says what is wrong with the configuration
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names, _ := service.Names() // those that are known are offered
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) })
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeSandboxFlags offers values for the flags that describe a sandbox.
func (a *app) completeSandboxFlags(c *cobra.Command) {
	offer := func(flag string, values func(context.Context, *sandbox.Service) []string) {
		c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			service, err := a.service()
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			return values(c.Context(), service), cobra.ShellCompDirectiveNoFileComp
		})
	}
	offer("template", func(_ context.Context, service *sandbox.Service) []string { return offeredTemplates(service.Config) })
	offer("runtime", func(_ context.Context, service *sandbox.Service) []string { return service.Runtimes.Names() })
	offer("network", func(context.Context, *sandbox.Service) []string { return networkModes() })
}

// offeredTemplates are the templates, each with what it is for.
func offeredTemplates(loaded *config.Config) []string {
	var offered []string
	for _, template := range byName(loaded.Templates) {
		offered = append(offered, cobra.CompletionWithDesc(template.Name, template.Description))
	}
	return offered
}
