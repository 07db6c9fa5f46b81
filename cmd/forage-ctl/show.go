package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/agent"
	"forage/internal/sandbox"
	"forage/internal/sandbox/work"
	"forage/internal/supervisor"
	"forage/internal/term"
)

// psWidth is what the table is held to: the width of a terminal of which nothing is known.
const psWidth = 80

func newPs(a *app) *cobra.Command {
	var f format
	c := a.unnamed("ps", a.serviceAnyway, func(c *cobra.Command, s *sandbox.Service) error {
		all, err := s.List(c.Context())
		wide := f.name == "wide"
		if f.json(a) || wide {
			s.CountFindings(c.Context(), all)
		}
		return errors.Join(f.show(a, all, psTable(all, wide, time.Now()).printer(a)), err)
	})
	f.add(c, "wide")
	c.Flags().BoolP("all", "a", false, "list those that are stopped too; it always does")
	return c
}

// psTable is the table of ps: one that is not wide fits psWidth.
func psTable(all []sandbox.Status, wide bool, now time.Time) table {
	columns := []string{"NAME", "AGENT", "STATE", "AGE", "BRANCH", "UNSAVED", "REFUSED"}
	if wide {
		columns = append(columns, "TEMPLATE", "RUNTIME", "PORT", "WORKSPACE", "TMUX")
	}
	found := slices.ContainsFunc(all, func(s sandbox.Status) bool { return s.FindingCount != 0 })
	if found && wide { // a column that is hardly ever needed stands out when it is
		columns = append(columns, "FINDINGS")
	}
	t := newTable(columns...)
	for _, s := range all {
		row := []string{s.Name, dash(s.Agent), state(s), age(now.Sub(s.CreatedAt)), dash(s.Branch), unsaved(s), dash(positive(s.Refused))}
		if wide {
			row = append(row, s.Template, s.Runtime, dash(positive(s.Port)), s.Workspace, s.Tmux)
		}
		if found && wide {
			count := dash(positive(s.FindingCount))
			if s.FindingCount < 0 {
				count = "?"
			}
			row = append(row, count)
		}
		t.Row(row...)
	}
	if !wide {
		t.Fit(psWidth, 0, 1, 4)
	}
	return t
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

// unsaved is whether work is nowhere else; - where there is nothing to compare with.
func unsaved(s sandbox.Status) string {
	compares := slices.ContainsFunc(s.Plan.Workspaces(), func(w forage.Workspace) bool { return w.Repository != nil && !w.ReadOnly })
	switch {
	case s.Unsaved == nil && (!compares || s.Status == string(forage.PhaseCreating)):
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

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// positive is a number, or nothing for 0.
func positive(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func newStatus(a *app) *cobra.Command {
	var f format
	c := a.named("status", a.serviceAnyway, func(c *cobra.Command, s *sandbox.Service, name string) error {
		status, err := s.Status(c.Context(), name)
		if err != nil {
			return err
		}
		var lookErr error // the rest is known all the same
		status.Findings, lookErr = s.Work.Findings(c.Context(), name)
		status.FindingCount = len(status.Findings)
		return firstError(f.show(a, status, func() error {
			return firstError(printStatus(a, status), printRefusals(a, status), printAutoruns(a, status.Name, status.Findings))
		}), lookErr)
	})
	f.add(c)
	return c
}

func printStatus(a *app, s sandbox.Status) error {
	t := newTable("NAME", s.Name)
	status, secrets := s.Status, []string{}
	if s.Reason != "" {
		status += " (" + s.Reason + ")"
	}
	for _, b := range s.Plan.Secrets {
		secrets = append(secrets, b.Secret)
	}
	if len(secrets) > 0 && s.Plan.SecretMode == forage.SecretsWrapped {
		secrets = append(secrets, "(inside, in "+forage.SecretsPath+")")
	}
	t.Row("STATUS", status)
	t.Row("TEMPLATE", s.Template)
	t.Row("RUNTIME", s.Runtime)
	t.Row("WORKSPACE", s.Workspace)
	// Say where the work comes from, where it comes to, and what of it is nowhere else.
	for _, w := range s.Work {
		row := func(name, text string) {
			if len(s.Work) > 1 {
				name += " " + w.Part
			}
			t.field(name, text)
		}
		if len(s.Work) > 1 {
			row("PART", w.Path)
		}
		if w.Source != "" {
			row("FROM", w.Source+" ("+string(w.Mode)+")")
		}
		row("BRANCH", w.Branch)
		row("BASE", fmt.Sprintf("%.12s", w.Base))
		if w.Apart != "" {
			row("CHECKED OUT", w.Apart+" inside, which does not go on from the sandbox's branch: "+w.Branch+" does not follow it")
		}
		if w.Unsaved {
			row("UNSAVED", w.Text())
		}
		if command := w.MergeCommand(s.Name); command != "" {
			row("HINT", "`"+command+"` has commits that are only inside come to "+w.Branch)
		}
	}
	t.Row("AGENT", strings.Join(s.Plan.Spec.Command, " "))
	if s.Status == string(forage.PhaseRunning) {
		t.Row("STATE", state(s))
	} else if s.ExitCode != nil {
		t.Row("EXIT STATUS", strconv.Itoa(*s.ExitCode))
	}
	t.Row("TMUX", s.Tmux)
	t.Row("PORT", dash(positive(s.Port))) // those of run have none
	t.field("LISTENING", ports(s.Ports))
	for _, page := range s.Pages {
		t.Row("ASKS TO OPEN", page.URL)
	}
	if len(s.Pages) > 0 {
		t.Row("HINT", "`forage-ctl open "+s.Name+"` opens it in your browser")
	}
	t.Row("NETWORK", networkLine(s.Network))
	t.field("SECRETS", strings.Join(secrets, " "))
	t.Row("CREATED", s.CreatedAt.Format(time.RFC3339))
	if !s.StartedAt.IsZero() {
		t.Row("STARTED", s.StartedAt.Format(time.RFC3339))
	}
	if !s.Expires.IsZero() { // the result of a run
		t.Row("KEPT UNTIL", s.Expires.Format(time.DateOnly))
	}
	return t.print(a)
}

// ports are those inside, with the host's that leads to each.
func ports(all []supervisor.Port) string {
	texts := make([]string, len(all))
	for i, p := range all {
		texts[i] = strconv.Itoa(p.Port)
		if p.Local != 0 {
			texts[i] += fmt.Sprintf(" (http://localhost:%d)", p.Local)
		}
	}
	return strings.Join(texts, ", ")
}

// networkLine is a network policy in one line.
func networkLine(n forage.Network) string {
	mode := string(n.Mode)
	mode = cmp.Or(mode, string(forage.NetworkNone))
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

// maxShown is how many refusals and findings status names; -o json has all of them.
const maxShown = 25

func more(all int) string {
	if all <= maxShown {
		return ""
	}
	return fmt.Sprintf("and %d more: -o json has all\n", all-maxShown)
}

// printRefusals shows what the sandbox was refused, and what allows it.
func printRefusals(a *app, s sandbox.Status) error {
	if len(s.Refusals) == 0 {
		return nil
	}
	text := fmt.Sprintf("\n'forage-ctl network %s --allow-last' allows what was refused last.\n", s.Name)
	for _, refusal := range s.Refusals[:min(len(s.Refusals), maxShown)] {
		text += term.Escape(sandbox.RefusalLine(refusal)) + "\n"
	}
	return a.write(text + more(len(s.Refusals)))
}

// printAutoruns shows what host tools would execute, the worst first.
func printAutoruns(a *app, name string, found []work.Finding) error {
	if len(found) == 0 {
		return nil
	}
	t := newTable("", "PATH", "WHY")
	next := fmt.Sprintf("'forage-ctl quarantine %s --all' moves it aside\n", name)
	for i, h := range found {
		mark, file := "", h.Path
		if h.Immediate {
			mark, next = "!", fmt.Sprintf("'forage-ctl quarantine %s' moves aside what is marked with !\n", name)
		}
		if h.Part != "" {
			file = h.Part + ": " + file
		}
		if i < maxShown {
			t.Row(mark, file, h.Why)
		}
	}
	return firstError(
		a.write("\nNew or changed since the sandbox was made, and executed by tools of the host:\n"),
		t.print(a), a.write(more(len(found))+next))
}
