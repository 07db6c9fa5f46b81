package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/sandbox"
	"forage/internal/sandbox/plan"
	"forage/internal/supervisor"
	"forage/internal/term"
)

func newRun(a *app) *cobra.Command {
	o := plan.Options{Ephemeral: true}
	var in terminal
	var keep string
	var print bool
	c := command("run", cobra.ArbitraryArgs, func(c *cobra.Command, args []string) error {
		if err := notEmpty(c, "keep"); err != nil {
			return err
		}
		if keep != "" && cmp.Or(o.Name, keep) != keep {
			return usageError(c, "--name %s and --keep %s: --keep says the name too", o.Name, keep)
		}
		o.Name, o.Keep, o.Command = cmp.Or(keep, o.Name), keep != "", args
		if len(args) == 0 && !print {
			return usageError(c, "which command?")
		}
		if c.Flags().Changed("timeout") && o.Timeout <= 0 {
			return usageError(c, "--timeout %s: must be more than nothing", o.Timeout)
		}
		if print {
			service, err := a.forSandbox(c, &o)
			if err = firstError(in.check(c), err); err != nil {
				return err
			}
			return a.printPlan(c.Context(), service, o, func(p forage.Plan) any { return p.Spec })
		}
		early := supervisor.Begin(c.Context()) // it comes to life while its sandbox is planned
		service, err := a.forSandbox(c, &o)
		if err = firstError(in.check(c), err); err != nil {
			return err
		}
		service.Host.Runtimes.Early = early
		a.status, err = service.Run(c.Context(), o, in.stdio(a))
		return err
	})
	a.sandboxFlags(c, &o)
	flags := c.Flags()
	flags.SetInterspersed(false) // what follows the first word is the command's, with or without `--`
	flags.StringVar(&o.Name, "name", "", "call the sandbox `NAME` (default: one is made up)")
	flags.StringVar(&keep, "keep", "", "keep the sandbox, stopped and with its home, as `NAME`")
	flags.DurationVar(&o.Timeout, "timeout", 0, "end the command after `DURATION` (90s, 5m), with exit status 124")
	flags.BoolVar(&print, "print-effective-config", false, "print what would be enforced as JSON and start nothing")
	in.add(c)
	return c
}

func newUp(a *app) *cobra.Command {
	var o plan.Options
	var f format
	var dryRun bool
	c := command("up", cobra.ArbitraryArgs, func(c *cobra.Command, args []string) error {
		names, dashed := args, c.ArgsLenAtDash()
		if dashed >= 0 {
			names, o.Command = args[:dashed], args[dashed:]
		}
		if err := oneName(c, names); err != nil {
			return err
		}
		if dashed >= 0 && len(o.Command) == 0 {
			return usageError(c, "which command?")
		}
		o.Name = names[0]
		service, err := a.forSandbox(c, &o)
		if err != nil {
			return err
		}
		if dryRun {
			return a.printPlan(c.Context(), service, o, func(p forage.Plan) any { return p })
		}
		status, err := service.Up(c.Context(), o)
		return a.printUp(f, status, err)
	})
	a.sandboxFlags(c, &o)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print the plan as JSON and do nothing")
	f.add(c)
	return c
}

// forSandbox opens the service for a command with sandboxFlags.
func (a *app) forSandbox(c *cobra.Command, o *plan.Options) (*sandbox.Service, error) {
	if err := notEmpty(c, "workspace", "git-worktree", "repo", "clone", "branch"); err != nil {
		return nil, err
	}
	if a.interactive() {
		o.Confirm = a.confirm
	}
	return a.service()
}

// printPlan prints what a plan decides, and starts nothing.
func (a *app) printPlan(ctx context.Context, service *sandbox.Service, o plan.Options, part func(forage.Plan) any) error {
	made, err := service.Host.Plan(ctx, o)
	if err != nil {
		return err
	}
	a.notes(made.Notes)
	if made.Missing != nil {
		a.note(made.Missing.Error() + ": " + forage.Hint(made.Missing))
	}
	return term.JSON(a.out, part(made.Plan))
}

// printUp prints a sandbox that was made, unless that failed.
func (a *app) printUp(f format, status sandbox.Status, err error) error {
	if err != nil {
		return err
	}
	return f.show(a, status, func() error {
		lines := fmt.Sprintf("%s is %s, with %s at /workspace\n", status.Name, status.Status, term.Escape(status.Workspace))
		for _, w := range status.Plan.Workspaces() {
			if w.Branch != "" && w.Source != "" && w.Mode != forage.WorkspaceJJ {
				lines += fmt.Sprintf("commits: on %s, from %s\n", term.Escape(w.Branch), term.Escape(w.Source))
			}
		}
		return a.write(lines + "attach: forage-ctl ssh " + status.Name + "\n")
	})
}

// does is a command that does one thing to one sandbox. anyway: a mistake in the configuration is
// no hindrance.
func does(name string, anyway bool, do func(*sandbox.Service, context.Context, string) error) func(*app) *cobra.Command {
	return func(a *app) *cobra.Command {
		open := a.service
		if anyway {
			open = a.serviceAnyway
		}
		return a.named(name, open, func(c *cobra.Command, s *sandbox.Service, name string) error { return do(s, c.Context(), name) })
	}
}

func restart(s *sandbox.Service, ctx context.Context, name string) error {
	if err := s.Stop(ctx, name); err != nil {
		return err
	}
	return s.Start(ctx, name)
}

func newDown(a *app) *cobra.Command {
	var all, force bool
	c := command("down", nil, a.with(a.serviceAnyway, func(c *cobra.Command, s *sandbox.Service, names []string) error {
		var failed []error
		if all { // those whose records can be read, whatever is wrong with others
			there, err := s.Names()
			names, failed = there, append(failed, err)
		}
		for _, name := range names {
			failed = append(failed, s.Down(c.Context(), name, force))
		}
		return errors.Join(failed...)
	}))
	c.Args = func(c *cobra.Command, args []string) error {
		if all == (len(args) > 0) {
			return usageError(c, "give either names or --all")
		}
		return names(c, args)
	}
	c.ValidArgsFunction = a.completeNames
	c.Flags().BoolVar(&all, "all", false, "remove every sandbox")
	c.Flags().BoolVarP(&force, "force", "f", false, "also with unsaved work, which is kept for 30 days, or without a readable record")
	return c
}

func newFork(a *app) *cobra.Command {
	var f format
	c := command("fork", nil, a.with(a.service, func(c *cobra.Command, s *sandbox.Service, args []string) error {
		status, err := s.Fork(c.Context(), args[0], args[1])
		return a.printUp(f, status, err)
	}))
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) != 2 {
			return usageError(c, "which sandbox, and what is the new one called?")
		}
		return names(c, args)
	}
	c.ValidArgsFunction = a.completeName
	f.add(c)
	return c
}

func newGC(a *app) *cobra.Command {
	var dryRun bool
	var f format
	c := a.unnamed("gc", a.serviceAnyway, func(c *cobra.Command, s *sandbox.Service) error {
		actions, err := s.GC(c.Context(), dryRun)
		return firstError(err, f.show(a, actions, func() error {
			for _, action := range actions {
				line := term.Escape(action.What)
				if action.Sandbox != "" { // else it belongs to no one sandbox
					line = term.Escape(action.Sandbox) + ": " + line
				}
				fmt.Fprintln(a.out, line)
			}
			return nil
		}))
	})
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done and do nothing")
	f.add(c)
	return c
}
