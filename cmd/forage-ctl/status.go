package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/sandbox"
	"forage/internal/term"
)

func newStatus(a *app) *cobra.Command {
	var f format
	c := &cobra.Command{
		Use:               "status NAME",
		Short:             "Show one sandbox",
		Example:           "forage-ctl status work\nforage-ctl status work -o json",
		Annotations:       map[string]string{exitNote: "2"},
		Args:              oneName,
		ValidArgsFunction: a.completeName,
		RunE:              func(c *cobra.Command, args []string) error { return runStatus(c, a, f, args[0]) },
	}
	f.add(c)
	return c
}

func runStatus(c *cobra.Command, a *app, f format, name string) error {
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	status, err := service.Status(c.Context(), name)
	if err != nil {
		return err
	}
	var lookErr error // the rest is known all the same
	status.Findings, lookErr = service.Work.Findings(c.Context(), name)
	status.FindingCount = len(status.Findings)
	if f.json(a) {
		return firstError(term.JSON(a.out, status), lookErr)
	}
	return firstError(printStatus(a, status), printRefusals(a, status), printAutoruns(a, status.Name, status.Findings), lookErr)
}

func printStatus(a *app, s sandbox.Status) error {
	table := term.NewTable("NAME", s.Name)
	table.Row("STATUS", withReason(s.Status, s.Reason))
	table.Row("TEMPLATE", s.Template)
	table.Row("RUNTIME", s.Runtime)
	table.Row("WORKSPACE", s.Workspace)
	workRows(table, s)
	table.Row("AGENT", strings.Join(s.Plan.Spec.Command, " "))
	if s.Status == string(forage.PhaseRunning) {
		table.Row("STATE", state(s))
	}
	table.Row("TMUX", s.Tmux)
	table.Row("PORT", port(s.Port))
	table.Row("NETWORK", networkLine(s.Network))
	if len(s.Plan.Secrets) > 0 {
		table.Row("SECRETS", secretsLine(s.Plan))
	}
	table.Row("CREATED", s.CreatedAt.Format(time.RFC3339))
	if !s.StartedAt.IsZero() {
		table.Row("STARTED", s.StartedAt.Format(time.RFC3339))
	}
	if !s.Expires.IsZero() { // the result of a run
		table.Row("KEPT UNTIL", s.Expires.Format(time.DateOnly))
	}
	return table.Write(a.out)
}

// maxRefusals is how many refusals status names; -o json has all of them.
const maxRefusals = 25

// printRefusals shows what the sandbox was refused, and what allows it.
func printRefusals(a *app, s sandbox.Status) error {
	var text strings.Builder
	for i, refusal := range s.Refusals[:min(len(s.Refusals), maxRefusals)] {
		if i == 0 {
			fmt.Fprintf(&text, "\n'forage-ctl network %s --allow-last' allows what was refused last.\n", s.Name)
		}
		fmt.Fprintln(&text, term.Escape(sandbox.RefusalLine(refusal)))
	}
	if more := len(s.Refusals) - maxRefusals; more > 0 {
		fmt.Fprintf(&text, "and %d more: -o json has all\n", more)
	}
	return a.write(text.String())
}

// workRows say where the work comes from, where it comes to, and what of it is nowhere else.
func workRows(table *term.Table, s sandbox.Status) {
	for _, w := range s.Work {
		at := func(row string) string {
			if len(s.Work) == 1 {
				return row
			}
			return row + " " + w.Part
		}
		if len(s.Work) > 1 {
			table.Row(at("PART"), w.Path)
		}
		if w.Source != "" {
			table.Row(at("FROM"), w.Source+" ("+string(w.Mode)+")")
		}
		if w.Branch != "" {
			table.Row(at("BRANCH"), w.Branch)
		}
		if w.Base != "" {
			table.Row(at("BASE"), fmt.Sprintf("%.12s", w.Base))
		}
		if w.Apart != "" {
			table.Row(at("CHECKED OUT"), w.Apart+" inside, which does not go on from the sandbox's branch: "+w.Branch+" does not follow it")
		}
		if w.Unsaved {
			table.Row(at("UNSAVED"), w.Text())
		}
		if command := w.MergeCommand(s.Name); command != "" {
			table.Row(at("HINT"), "`"+command+"` has commits that are only inside come to "+w.Branch)
		}
	}
}

func withReason(status, reason string) string {
	if reason == "" {
		return status
	}
	return fmt.Sprintf("%s (%s)", status, reason)
}

// networkLine is a network policy in one line.
func networkLine(n forage.Network) string {
	mode := string(n.Mode)
	if mode == "" {
		mode = string(forage.NetworkNone)
	}
	if n.Monitor {
		mode += " (monitor on)"
	}
	allowed := n.Allow
	if len(n.Rules) > 0 {
		allowed = append(slices.Clone(allowed), fmt.Sprintf("(%d rules)", len(n.Rules)))
	}
	if len(allowed) == 0 {
		return mode
	}
	return mode + ": " + strings.Join(allowed, " ")
}

// secretsLine names the secrets of a sandbox, and how it has them.
func secretsLine(plan forage.Plan) string {
	var names []string
	for _, b := range plan.Secrets {
		names = append(names, b.Secret)
	}
	line := strings.Join(names, " ")
	if plan.SecretMode == forage.SecretsWrapped {
		return line + " (inside, in " + forage.SecretsPath + ")"
	}
	return line
}
