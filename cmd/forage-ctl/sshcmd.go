package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"forage/internal/term"
)

type sshCmdOptions struct {
	jump   string
	format format
}

func newSSHCmd(a *app) *cobra.Command {
	var o sshCmdOptions
	c := &cobra.Command{
		Use:   "ssh-cmd NAME",
		Short: "Print the ssh command that reaches a sandbox",
		Long: `
The command works with any OpenSSH client, pins the sandbox's host key, and
forwards neither agents nor X11. Further arguments of ssh can be added to it.
Where your home folder has spaces in its name, eval "$(forage-ctl ssh-cmd NAME)"
has the shell read the quotes.`,
		Example: `
$(forage-ctl ssh-cmd work)
$(forage-ctl ssh-cmd work) -L 3000:localhost:3000
forage-ctl ssh-cmd work --jump me@workstation`,
		Annotations:       map[string]string{exitNote: "2"},
		Args:              oneName,
		ValidArgsFunction: a.completeName,
		RunE:              func(c *cobra.Command, args []string) error { return runSSHCmd(a, &o, args[0]) },
	}
	c.Flags().StringVar(&o.jump, "jump", "", "for use from another machine: go through `HOST` (ssh -J)")
	o.format.add(c)
	return c
}

func runSSHCmd(a *app, o *sshCmdOptions, name string) error {
	service, err := a.service()
	if err != nil {
		return err
	}
	argv, err := service.SSHCommand(name, o.jump)
	if err != nil {
		return err
	}
	if o.format.json(a) {
		return term.JSON(a.out, argv)
	}
	_, err = fmt.Fprintln(a.out, term.ShellWords(argv))
	return err
}
