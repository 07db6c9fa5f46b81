package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/term"
)

func newTemplates(a *app) *cobra.Command {
	var f format
	c := &cobra.Command{
		Use:   "templates",
		Short: "List the templates",
		Long: `
Lists the kinds of sandbox that there are: those of the configuration, and the
built-in ones.`,
		Example:           "forage-ctl templates\nforage-ctl templates -o json",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return runTemplates(a, f) },
	}
	f.add(c)
	return c
}

func runTemplates(a *app, f format) error {
	service, err := a.service()
	if err != nil {
		return err
	}
	templates := byName(service.Config.Templates)
	if f.json(a) {
		return printList(a, templates)
	}
	table := term.NewTable("NAME", "RUNTIME", "NETWORK", "AGENTS", "DESCRIPTION")
	for _, t := range templates {
		table.Row(t.Name, cmp.Or(t.Runtime, "-"), networkSummary(t.Network), cmp.Or(agentNames(t), "-"), t.Description)
	}
	return table.Write(a.out)
}

// byName are the values of a map in the order of their keys.
func byName[T any](values map[string]T) []T {
	list := make([]T, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		list = append(list, values[name])
	}
	return list
}

// networkSummary is a network policy in a word and a number.
func networkSummary(n forage.Network) string {
	mode := cmp.Or(string(n.Mode), string(forage.NetworkNone))
	if len(n.Allow) == 0 {
		return mode
	}
	return fmt.Sprintf("%s (%s)", mode, term.Count(len(n.Allow), "host"))
}

func agentNames(t forage.Template) string {
	return strings.Join(slices.Sorted(maps.Keys(t.Agents)), " ")
}
