package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/agent"
	"forage/internal/sandbox"
	"forage/internal/term"
)

// psWidth is what the table is held to: the width of a terminal of which nothing is known.
const psWidth = 80

func newPs(a *app) *cobra.Command {
	f := format{name: "table"}
	c := &cobra.Command{
		Use:   "ps",
		Short: "List sandboxes",
		Long: `
STATE is what the agent does: working, waiting for you, running (it doesn't say)
or ended, with its exit status; or what the sandbox is: stopped, failed or being
created. What an agent does is what its terminal says, which it can forge.
UNSAVED is whether work is nowhere else: yes, no, - for a folder of your own, ?
where looking took too long. REFUSED is how many hosts it asked for in vain.`,
		Example:           "forage-ctl ps\nforage-ctl ps -o wide\nforage-ctl ps -o json",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return runPs(c, a, f) },
	}
	c.Flags().VarP(choice{&f.name, []string{"table", "wide", "json"}}, "output", "o", "how to print the result")
	c.Flags().BoolP("all", "a", false, "list those that are stopped too; it always does")
	return c
}

func runPs(c *cobra.Command, a *app, f format) error {
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	all, err := service.List(c.Context())
	if f.json(a) || f.name == "wide" {
		service.CountFindings(c.Context(), all)
	}
	if f.json(a) {
		return errors.Join(printList(a, all), err)
	}
	return errors.Join(psTable(all, f.name == "wide", time.Now()).Write(a.out), err)
}

// psTable is the table of ps: one that is not wide fits psWidth.
func psTable(all []sandbox.Status, wide bool, now time.Time) *term.Table {
	columns := []string{"NAME", "AGENT", "STATE", "AGE", "BRANCH", "UNSAVED", "REFUSED"}
	if wide {
		columns = append(columns, "TEMPLATE", "RUNTIME", "PORT", "WORKSPACE", "TMUX")
	}
	found := slices.ContainsFunc(all, func(s sandbox.Status) bool { return s.FindingCount != 0 })
	if found && wide { // a column that is hardly ever needed stands out when it is
		columns = append(columns, "FINDINGS")
	}
	table := term.NewTable(columns...)
	for _, s := range all {
		row := []string{s.Name, orDash(s.Agent), state(s), age(now.Sub(s.CreatedAt)), orDash(s.Branch), unsaved(s), orDash(positive(s.Refused))}
		if wide {
			row = append(row, s.Template, s.Runtime, port(s.Port), s.Workspace, s.Tmux)
		}
		if found && wide {
			row = append(row, findingCount(s.FindingCount))
		}
		table.Row(row...)
	}
	if !wide {
		table.Fit(psWidth, 0, 1, 4)
	}
	return table
}

// state is the agent's where the sandbox runs, else the sandbox's.
func state(s sandbox.Status) string {
	switch {
	case s.Status != string(forage.PhaseRunning):
		return s.Status
	case s.ExitCode != nil:
		return fmt.Sprintf("%s %d", s.AgentState, *s.ExitCode)
	case s.AgentState == "":
		return agent.Running
	}
	return s.AgentState
}

func unsaved(s sandbox.Status) string {
	switch {
	case s.Unsaved == nil && (s.WorkspaceMode == forage.WorkspaceDirect || s.Status == string(forage.PhaseCreating)):
		return "-"
	case s.Unsaved == nil:
		return "?"
	case *s.Unsaved:
		return "yes"
	}
	return "no"
}

// age is a time in its greatest unit.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, d/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// positive is a number, or nothing for 0.
func positive(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// port is how a sandbox's port is shown: those of run have none.
func port(number int) string { return orDash(positive(number)) }
