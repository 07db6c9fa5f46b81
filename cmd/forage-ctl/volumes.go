package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"forage/internal/term"
)

func newVolumes(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "volumes list|remove",
		Short: "List and remove the folders that sandboxes share",
		Long: `
A named volume is made by 'up' and 'run' with --volume NAME:DST, or by a
template's volumes. All sandboxes that name it share it, and it is kept until it
is removed. What one agent leaves in it, another one may run.`,
		Example: `
forage-ctl up work --volume build-cache:/home/agent/.cache/build -- claude
forage-ctl volumes list
forage-ctl volumes remove build-cache`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(c, "list or remove?")
			}
			return usageError(c, "it can't %q", args[0])
		},
	}
	c.AddCommand(newVolumesList(a), newVolumesRemove(a))
	return c
}

func newVolumesList(a *app) *cobra.Command {
	var f format
	c := &cobra.Command{
		Use:               "list",
		Short:             "List the named volumes, and who has them",
		Example:           "forage-ctl volumes list",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			service, err := a.serviceAnyway()
			if err != nil {
				return err
			}
			volumes, err := service.Volumes()
			if f.json(a) {
				return firstError(printList(a, volumes), err)
			}
			table := term.NewTable("NAME", "USED BY")
			for _, volume := range volumes {
				table.Row(volume.Name, dash(strings.Join(volume.UsedBy, ",")))
			}
			return firstError(table.Write(a.out), err)
		},
	}
	f.add(c)
	return c
}

func newVolumesRemove(a *app) *cobra.Command {
	return &cobra.Command{
		Use:         "remove NAME...",
		Short:       "Remove named volumes, with all that is in them",
		Example:     "forage-ctl volumes remove build-cache",
		Annotations: map[string]string{exitNote: "2 7"},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(c, "which volume?")
			}
			service, err := a.serviceAnyway()
			if err != nil {
				return err
			}
			var errs []error
			for _, name := range args {
				errs = append(errs, service.RemoveVolume(name))
			}
			return errors.Join(errs...)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			service, err := a.open(func(error) {})
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			volumes, _ := service.Volumes() // what can be listed is offered
			for _, volume := range volumes {
				names = append(names, volume.Name)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}
