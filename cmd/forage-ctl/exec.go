package main

import (
	"github.com/spf13/cobra"
)

type execOptions struct{ terminal terminal }

func newExec(a *app) *cobra.Command {
	var o execOptions
	c := &cobra.Command{
		Use:   "exec NAME [flags] -- COMMAND [ARG...]",
		Short: "Run a command in a running sandbox",
		Long: `
The command starts in /workspace with the sandbox's environment. Its standard
streams are passed through; it gets a terminal when stdin and stdout are one.`,
		Example: `
forage-ctl exec work -- git status
tar -c . | forage-ctl exec work -- tar -x -C /tmp
forage-ctl exec work --tty -- top`,
		Annotations:       map[string]string{exitNote: "2 " + insideExit},
		ValidArgsFunction: a.completeName,
		RunE:              func(c *cobra.Command, args []string) error { return runExec(c, a, &o, args) },
	}
	c.Flags().SetInterspersed(false)
	o.terminal.add(c)
	return c
}

// runExec reads `NAME [flags] [--] COMMAND...`: our flags end where the command begins.
func runExec(c *cobra.Command, a *app, o *execOptions, args []string) error {
	if len(args) == 0 || c.ArgsLenAtDash() == 0 {
		return usageError(c, "which sandbox?")
	}
	if err := c.Flags().Parse(args[1:]); err != nil {
		return flagError(c, err)
	}
	name, command := args[0], c.Flags().Args()
	if err := oneName(c, []string{name}); err != nil {
		return err
	}
	if len(command) == 0 {
		return usageError(c, "which command?")
	}
	if err := o.terminal.check(c); err != nil {
		return err
	}
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	a.status, err = service.Exec(c.Context(), name, command, o.terminal.stdio(a))
	return err
}
