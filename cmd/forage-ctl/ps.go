package main

import (
	"errors"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"forage/internal/sandbox"
	"forage/internal/term"
)

func newPs(a *app) *cobra.Command {
	var f format
	c := &cobra.Command{
		Use:               "ps",
		Short:             "List sandboxes",
		Example:           "forage-ctl ps\nforage-ctl ps -o json",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return runPs(c, a, f) },
	}
	f.add(c)
	return c
}

func runPs(c *cobra.Command, a *app, f format) error {
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	all, err := service.List(c.Context()) // those that could be read, whatever err is
	service.CountHazards(c.Context(), all)
	return errors.Join(printPs(a, f, all), err)
}

func printPs(a *app, f format, all []sandbox.Status) error {
	if f.json(a) {
		return printList(a, all)
	}
	columns := []string{"NAME", "TEMPLATE", "RUNTIME", "PORT", "WORKSPACE", "STATUS", "TMUX"}
	found := slices.ContainsFunc(all, func(s sandbox.Status) bool { return s.HazardCount != 0 })
	if found { // a column that is hardly ever needed stands out when it is
		columns = append(columns, "FINDINGS")
	}
	table := term.NewTable(columns...)
	for _, s := range all {
		row := []string{s.Name, s.Template, s.Runtime, port(s.Port), s.Workspace, s.Status, s.Tmux}
		if found {
			row = append(row, hazardCount(s.HazardCount))
		}
		table.Row(row...)
	}
	return table.Write(a.out)
}

// port is how a sandbox's port is shown: those of run have none.
func port(number int) string {
	if number == 0 {
		return "-"
	}
	return strconv.Itoa(number)
}
