package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/sandbox"
	"forage/internal/sandbox/plan"
	"forage/internal/term"
)

type upOptions struct {
	plan.Options
	dryRun bool
	format format
}

func newUp(a *app) *cobra.Command {
	var o upOptions
	c := &cobra.Command{
		Use:   "up NAME [flags] [-- COMMAND [ARG...]]",
		Short: "Start a sandbox that stays",
		Long: `
Makes the sandbox NAME and returns when it is usable. Its agent (the template's,
or COMMAND) runs in the tmux session 'forage' inside, which outlives your
terminal: 'forage-ctl ssh NAME' attaches to it.

The agent works on the current folder (or -w), or on a worktree, a jj workspace
or a clone of its own, whose commits come to the branch forage-NAME of your
repository: 'forage-ctl diff NAME' shows them.

A stopped sandbox is started again as it was made. With flags that ask for
another one, up says what differs and refuses: take it down first.`,
		Example: `
forage-ctl up work -t claude -w ~/project
forage-ctl up work --network restricted --allow github.com:22 -- bash
forage-ctl up fix --git-worktree ~/project -- claude
forage-ctl up try --clone https://git.example.com/team/app.git --branch next
forage-ctl up work --mount ~/data:/data:ro --env LANG
forage-ctl up work --dry-run`,
		Annotations: map[string]string{exitNote: "3 4 5 6 7 8"},
		RunE: func(c *cobra.Command, args []string) error {
			names, command, dashed := splitCommand(c, args)
			if err := oneName(c, names); err != nil {
				return err
			}
			if dashed && len(command) == 0 {
				return usageError(c, "which command?")
			}
			if err := checkWorkspace(c); err != nil {
				return err
			}
			o.Name, o.Command = names[0], command
			return runUp(c, a, &o)
		},
	}
	sandboxFlags(c, &o.Options)
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "print the plan as JSON and do nothing")
	o.format.add(c)
	c.ValidArgsFunction = cobra.NoFileCompletions
	a.completeSandboxFlags(c)
	return c
}

func runUp(c *cobra.Command, a *app, o *upOptions) error {
	service, err := a.service()
	if err != nil {
		return err
	}
	if o.dryRun {
		made, err := service.Plan(c.Context(), o.Options)
		if err != nil {
			return err
		}
		a.tellPlan(made)
		return term.JSON(a.out, made.Plan)
	}
	status, err := service.Up(c.Context(), o.Options)
	if err != nil {
		return err
	}
	if o.format.json(a) {
		return term.JSON(a.out, status)
	}
	return a.printUp(status)
}

func (a *app) printUp(status sandbox.Status) error {
	lines := fmt.Sprintf("%s is %s, with %s at /workspace\n", status.Name, status.Status, term.Escape(status.Workspace))
	for _, w := range status.Plan.Workspaces() {
		if w.Branch != "" && w.Source != "" && w.Mode != forage.WorkspaceJJ {
			lines += fmt.Sprintf("commits: on %s, from %s\n", term.Escape(w.Branch), term.Escape(w.Source))
		}
	}
	_, err := fmt.Fprintf(a.out, "%sattach: forage-ctl ssh %s\n", lines, status.Name)
	return err
}
