package main

import (
	"github.com/spf13/cobra"

	"forage"
	"forage/internal/term"
)

func newSSHConfig(a *app) *cobra.Command {
	var install bool
	c := &cobra.Command{
		Use:   "ssh-config [NAME...] [flags]",
		Short: "Print or install what ssh needs to know of sandboxes",
		Long: `
Prints a Host block of OpenSSH's configuration for each running sandbox, or for
those named: forage-NAME, with its port, pinned host key and identity. Editors
that work over SSH, scp and sftp read it.

With --install the blocks are kept in a file of Forage's, which up, start, stop
and down bring up to date, and which your ~/.ssh/config includes: one line is
added at its beginning, once.`,
		Example: `
forage-ctl ssh-config --install && ssh forage-work
forage-ctl ssh-config work > config && scp -F config file forage-work:`,
		Annotations: map[string]string{exitNote: "2"},
		Args: func(c *cobra.Command, args []string) error {
			if install && len(args) > 0 {
				return usageError(c, "--install takes no names: it is about all sandboxes that run")
			}
			for _, name := range args {
				if err := forage.CheckName(name); err != nil {
					return err
				}
			}
			return nil
		},
		ValidArgsFunction: a.completeNames,
		RunE:              func(c *cobra.Command, args []string) error { return runSSHConfig(c, a, install, args) },
	}
	c.Flags().BoolVar(&install, "install", false, "have ~/.ssh/config include them, and keep them up to date")
	return c
}

func runSSHConfig(c *cobra.Command, a *app, install bool, names []string) error {
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	if !install {
		text, err := service.SSHConfig(names)
		return firstError(a.write(text), err)
	}
	path, changed, err := service.InstallSSHConfig(c.Context())
	if err != nil {
		return err
	}
	text := " includes the sandboxes already"
	if changed {
		text = " includes the sandboxes now: one line was added at its beginning"
	}
	return a.write(term.Escape(path) + text + "\nnext: ssh forage-NAME\n")
}
