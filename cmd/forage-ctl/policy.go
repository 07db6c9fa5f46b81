package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/audit"
	"forage/internal/config"
	"forage/internal/policy"
	"forage/internal/recommend"
	"forage/internal/sandbox"
	"forage/internal/sandbox/plan"
	"forage/internal/term"
)

func newNetwork(a *app) *cobra.Command {
	var change plan.NetworkChange
	var monitor string
	var f format
	c := command("network", nil, a.with(a.service, func(c *cobra.Command, s *sandbox.Service, args []string) error {
		if len(args) == 2 {
			change.Mode = forage.NetworkMode(args[1])
		}
		if on := monitor == "on"; monitor != "" {
			change.Monitor = &on
		}
		network, err := s.Network(c.Context(), args[0], change)
		if err != nil {
			return err
		}
		t := newTable("MODE", string(network.Mode))
		if network.Monitor {
			t.Row("MONITOR", "on")
		}
		for _, host := range network.Allow {
			if hosts := network.Sets[host]; len(hosts) > 0 {
				host += ": " + strings.Join(hosts, " ")
			}
			t.Row("ALLOW", host)
		}
		for _, rule := range network.Rules { // as decisions name them
			text := policy.RuleText(rule)
			if !rule.Deny {
				text = "allow " + text
			}
			t.Row("RULE", text)
		}
		return f.show(a, network, t.printer(a))
	}))
	c.Args = func(c *cobra.Command, args []string) error {
		var mode string
		if len(args) > 1 {
			if err := (choice{&mode, networkModes()}).Set(args[1]); err != nil {
				return usageError(c, "%q: %w", args[1], err)
			}
		}
		if len(args) > 2 {
			return usageError(c, "unexpected argument %q", args[2])
		}
		return oneName(c, args[:min(len(args), 1)])
	}
	c.ValidArgsFunction = func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return networkModes(), cobra.ShellCompDirectiveNoFileComp
		}
		return a.completeName(c, args, prefix)
	}
	c.Flags().StringArrayVar(&change.Allow, "allow", nil, "allow `HOST[:PORT]`, '*.suffix', an address or @SET (repeatable)")
	c.Flags().BoolVar(&change.AllowLast, "allow-last", false, "allow what was refused last, as shown by status")
	c.Flags().StringArrayVar(&change.Remove, "remove", nil, "take the rule for `HOST[:PORT]` away again (repeatable)")
	c.Flags().Var(choice{&monitor, []string{"on", "off"}}, "monitor", "let through and record what the rules deny")
	f.add(c)
	return c
}

func newPolicy(a *app) *cobra.Command {
	return group("policy", newPolicyTest(a), newPolicyRecommend(a))
}

func newPolicyRecommend(a *app) *cobra.Command {
	var f format
	c := a.named("policy recommend", a.service, func(_ *cobra.Command, s *sandbox.Service, name string) error {
		path, err := s.AuditPath(name)
		if err != nil {
			return err
		}
		recommended, err := recommend.From(audit.EventsOf(path, audit.Filter{}))
		if err != nil {
			return err
		}
		return f.show(a, recommended, func() error {
			template := "NAME" // of a run that has ended: to be replaced
			if record, err := s.Host.Store.Load(name); err == nil && record.Template != "" {
				template = record.Template
			}
			return a.write(recommended.TOML(template, fmt.Sprintf("From the audit log of %s, %s: %d events, %d of them connections and requests that were let through.",
				name, time.Now().Format(time.DateOnly), recommended.Events, recommended.Requests)))
		})
	})
	c.Aliases = []string{"suggest"} // its older name
	f.add(c)
	return c
}

func newPolicyTest(a *app) *cobra.Command {
	var workspace string
	var f format
	args := wants("which template?", "which method, such as GET?", "which URL?")
	c := command("policy test", args, a.with(a.service, func(_ *cobra.Command, s *sandbox.Service, args []string) error {
		e, err := s.Host.Explain(args[0], args[1], args[2], workspace)
		if err != nil {
			return err
		}
		if e.Verdict != policy.Allow {
			a.status = forage.ExitCode(forage.ErrDenied)
		}
		return f.show(a, explainedJSON(e), func() error { return printExplained(a, args[0], e) })
	}))
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return a.offer(func(s *sandbox.Service) []string { return offeredTemplates(s.Host.Config) })
		case 1:
			return []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT"}, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c.Flags().StringVarP(&workspace, "workspace", "w", "", "tighten the template by the file of the project in `PATH`")
	f.add(c)
	return c
}

// explanation is what `policy test -o json` prints.
type explanation struct {
	Verdict     string          `json:"verdict"`
	Rule        string          `json:"rule"`
	Reason      string          `json:"reason,omitempty"`
	Monitored   bool            `json:"monitored,omitempty"` // it would be denied without monitor mode
	Intercepted bool            `json:"intercepted"`
	Secret      string          `json:"secret,omitempty"`
	Push        []string        `json:"push,omitempty"` // refs that may be pushed to
	Changes     []policy.Change `json:"changes"`        // each would turn the verdict around
}

func explainedJSON(e plan.Explained) explanation {
	out := explanation{
		Verdict: e.Verdict.String(), Rule: e.Rule, Reason: e.Reason, Monitored: e.Monitored,
		Intercepted: e.Intercepted, Secret: e.Secret, Changes: append([]policy.Change{}, e.Changes...),
	}
	if e.Push != nil {
		out.Push = e.Push.Push
	}
	return out
}

func printExplained(a *app, template string, e plan.Explained) error {
	verdict, to, intercepted := e.Verdict.String(), "allow", "no"
	if e.Monitored {
		verdict += " (recorded as denied: monitor is on)"
	}
	if e.Verdict == policy.Allow && !e.Monitored {
		to = "deny"
	}
	if e.Intercepted {
		intercepted = "yes"
	}
	t := newTable("VERDICT", verdict)
	t.Row("RULE", e.Rule)
	t.field("REASON", e.Reason)
	if e.Push != nil {
		t.Row("PUSH", strings.Join(e.Push.Push, " "))
	}
	t.Row("INTERCEPTED", intercepted)
	t.field("SECRET", e.Secret)
	var b strings.Builder
	if len(e.Changes) == 0 {
		b.WriteString("\nNo rule for this alone can change that.\n")
	}
	for i, c := range e.Changes {
		if i == 0 {
			fmt.Fprintf(&b, "\nTo %s it:\n", to)
		} else {
			b.WriteString("\nor:\n")
		}
		for _, line := range changeLines(template, e.OfProject, c) {
			b.WriteString("  " + term.Escape(line) + "\n")
		}
	}
	return firstError(t.print(a), a.write(b.String()))
}

// changeLines is one change, as lines of TOML or in words.
func changeLines(template string, ofProject []string, c policy.Change) []string {
	table := "templates." + template
	var lines []string
	if c.Remove != "" {
		from := table
		if slices.Contains(ofProject, c.Remove) {
			from = config.ProjectFile
		}
		lines = append(lines, "remove from "+from+": "+c.Remove)
	}
	if c.Mode != "" {
		lines = append(lines, "set in "+table+": network = "+strconv.Quote(string(c.Mode)))
	}
	if c.Allow != "" {
		lines = append(lines, "add to "+table+".allowedHosts: "+strconv.Quote(c.Allow))
	}
	if c.Rule != nil {
		rule := strings.TrimSuffix(recommend.RuleTOML(template, *c.Rule), "\n")
		lines = append(lines, strings.Split(rule, "\n")...)
	}
	return lines
}
