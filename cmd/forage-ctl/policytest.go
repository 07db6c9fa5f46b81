package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/config"
	"forage/internal/policy"
	"forage/internal/recommend"
	"forage/internal/sandbox/plan"
	"forage/internal/term"
)

type policyTestOptions struct {
	workspace string
	format    format
}

func newPolicyTest(a *app) *cobra.Command {
	var o policyTestOptions
	c := &cobra.Command{
		Use:   "test TEMPLATE METHOD URL [flags]",
		Short: "Explain what would become of a request",
		Long: `
Prints whether a sandbox of that template may make the request, the rule that
decides, why, and what would change it; also whether TLS to the host is looked
into, and which secret would be put in. Nothing is sent, and no secret is read.

The URL is judged as it is written, escapes and all. With the method CONNECT it
is HOST:PORT, for what is not HTTP.`,
		Example: `
forage-ctl policy test claude POST https://api.anthropic.com/v1/messages
forage-ctl policy test work GET 'https://api.github.com/repos/acme?page=2'
forage-ctl policy test work CONNECT github.com:22`,
		Annotations:           map[string]string{exitNote: "3 6 8"},
		DisableFlagsInUseLine: true,
		Args:                  policyTestArgs,
		ValidArgsFunction:     a.completePolicyTest,
		RunE:                  func(_ *cobra.Command, args []string) error { return runPolicyTest(a, o, args) },
	}
	c.Flags().StringVarP(&o.workspace, "workspace", "w", "", "tighten the template by the file of the project in `PATH`")
	o.format.add(c)
	return c
}

func policyTestArgs(c *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return usageError(c, "which template?")
	case 1:
		return usageError(c, "which method, such as GET?")
	case 2:
		return usageError(c, "which URL?")
	case 3:
		return nil
	}
	return usageError(c, "unexpected argument %q", args[3])
}

func (a *app) completePolicyTest(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		loaded, err := a.loadConfig(a.configFile)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return offeredTemplates(loaded), cobra.ShellCompDirectiveNoFileComp
	case 1:
		return []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT"}, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func runPolicyTest(a *app, o policyTestOptions, args []string) error {
	service, err := a.service()
	if err != nil {
		return err
	}
	e, err := service.Explain(args[0], args[1], args[2], o.workspace)
	if err != nil {
		return err
	}
	if e.Verdict != policy.Allow {
		a.status = forage.ExitCode(forage.ErrDenied)
	}
	if o.format.json(a) {
		return term.JSON(a.out, explainedJSON(e))
	}
	return printExplained(a, args[0], e)
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
	verdict := e.Verdict.String()
	if e.Monitored {
		verdict += " (recorded as denied: monitor is on)"
	}
	table := term.NewTable("VERDICT", verdict)
	table.Row("RULE", e.Rule)
	if e.Reason != "" {
		table.Row("REASON", e.Reason)
	}
	if e.Push != nil {
		table.Row("PUSH", strings.Join(e.Push.Push, " "))
	}
	table.Row("INTERCEPTED", map[bool]string{true: "yes", false: "no"}[e.Intercepted])
	if e.Secret != "" {
		table.Row("SECRET", e.Secret)
	}
	if err := table.Write(a.out); err != nil {
		return err
	}
	return a.write(changesText(template, e))
}

// changesText is what would turn the verdict around, as parts of a configuration.
func changesText(template string, e plan.Explained) string {
	to := "allow"
	if e.Verdict == policy.Allow && !e.Monitored {
		to = "deny"
	}
	var b strings.Builder
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
	if len(e.Changes) == 0 {
		b.WriteString("\nNo rule for this alone can change that.\n")
	}
	return b.String()
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
