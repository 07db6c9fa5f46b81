package main

import (
	"errors"

	"github.com/spf13/cobra"

	"forage/internal/sandbox/plan"
	"forage/internal/term"
)

type runOptions struct {
	plan.Options
	terminal terminal
	keep     string
	print    bool
}

func newRun(a *app) *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: "Run one command in a throw-away sandbox",
		Long: `
The command runs in a sandbox of its own, with the current folder (or -w) at
/workspace. Its terminal and standard streams are passed through. When it ends,
so does the sandbox: the workspace stays, nothing else does. What was done in a
worktree, jj workspace or clone is kept for 30 days: 'forage-ctl diff NAME'
shows it, 'forage-ctl apply NAME' brings it into your repository. With --keep
the sandbox stays, stopped: 'forage-ctl start NAME' starts the command again.

Without -t the template is the one named like the command ('run -- claude' uses
'claude'), else the default one. A command that is on your PATH outside the
system's folders is shown inside, read-only, with the files that it needs.`,
		Example: `
forage-ctl run -- claude
forage-ctl run -w ~/project -e LANG -- claude -p 'fix the tests'
forage-ctl run --git-worktree . --name fix -- claude -p 'fix the tests'
forage-ctl run --keep fix -- claude
forage-ctl run --network none --timeout 5m -- make test
forage-ctl run --allow docs.example.com --allow git.example.com:22 -- make
forage-ctl run --print-effective-config -- claude`,
		Annotations: map[string]string{exitNote: "3 5 6 7 8 124 " + insideExit},
		RunE: func(c *cobra.Command, args []string) error {
			o.Command = args
			return runRun(c, a, &o)
		},
	}
	sandboxFlags(c, &o.Options)
	flags := c.Flags()
	flags.SetInterspersed(false) // what follows the first word is the command's, with or without `--`
	flags.StringVar(&o.Name, "name", "", "call the sandbox `NAME` (default: one is made up)")
	flags.StringVar(&o.keep, "keep", "", "keep the sandbox, stopped and with its home, as `NAME`")
	flags.DurationVar(&o.Timeout, "timeout", 0, "end the command after `DURATION` (90s, 5m), with exit status 124")
	flags.BoolVar(&o.print, "print-effective-config", false, "print what would be enforced as JSON and start nothing")
	o.terminal.add(c)
	c.ValidArgsFunction = cobra.NoFileCompletions
	a.completeSandboxFlags(c)
	return c
}

func runRun(c *cobra.Command, a *app, o *runOptions) error {
	o.Ephemeral = true
	if err := notEmpty(c, "keep"); err != nil {
		return err
	}
	if o.keep != "" {
		if o.Name != "" && o.Name != o.keep {
			return usageError(c, "--name %s and --keep %s: --keep says the name too", o.Name, o.keep)
		}
		o.Name, o.Keep = o.keep, true
	}
	if len(o.Command) == 0 && !o.print {
		return usageError(c, "which command?")
	}
	if c.Flags().Changed("timeout") && o.Timeout <= 0 {
		return usageError(c, "--timeout %s: must be more than nothing", o.Timeout)
	}
	if err := errors.Join(o.terminal.check(c), checkWorkspace(c)); err != nil {
		return err
	}
	service, err := a.service()
	if err != nil {
		return err
	}
	if o.print {
		made, err := service.Plan(c.Context(), o.Options)
		if err != nil {
			return err
		}
		a.tellPlan(made)
		return term.JSON(a.out, made.Plan.Spec)
	}
	a.status, err = service.Run(c.Context(), o.Options, o.terminal.stdio(a))
	return err
}
