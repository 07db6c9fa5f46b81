package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/sandbox"
	"forage/internal/term"
)

// newExec reads `NAME [flags] [--] COMMAND...`: our flags end where the command begins.
func newExec(a *app) *cobra.Command {
	var in terminal
	c := command("exec", cobra.ArbitraryArgs, func(c *cobra.Command, args []string) error {
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
		service, err := a.serviceAnyway()
		if err = firstError(in.check(c), err); err != nil {
			return err
		}
		a.status, err = service.Exec(c.Context(), name, command, in.stdio(a))
		return err
	})
	c.ValidArgsFunction = a.completeName
	c.Flags().SetInterspersed(false)
	in.add(c)
	return c
}

func newShell(a *app) *cobra.Command {
	return a.named("shell", a.serviceAnyway, func(c *cobra.Command, s *sandbox.Service, name string) error {
		stdio, err := wholeTerminal(c, a)
		if err == nil {
			a.status, err = s.Shell(c.Context(), name, stdio)
		}
		return err
	})
}

func newSSH(a *app) *cobra.Command {
	return a.named("ssh", a.service, func(c *cobra.Command, s *sandbox.Service, name string) error {
		stdio, err := wholeTerminal(c, a)
		if err == nil {
			a.status, err = s.Attach(c.Context(), name, stdio)
		}
		return err
	})
}

func newSSHCmd(a *app) *cobra.Command {
	var jump string
	var f format
	c := a.named("ssh-cmd", a.service, func(c *cobra.Command, s *sandbox.Service, name string) error {
		argv, err := s.SSHCommand(name, jump)
		if err != nil {
			return err
		}
		return f.show(a, argv, func() error { return a.write(term.ShellWords(argv) + "\n") })
	})
	c.Flags().StringVar(&jump, "jump", "", "for use from another machine: go through `HOST` (ssh -J)")
	f.add(c)
	return c
}

func newSSHConfig(a *app) *cobra.Command {
	var install bool
	c := command("ssh-config", names, a.with(a.serviceAnyway, func(c *cobra.Command, s *sandbox.Service, names []string) error {
		if install && len(names) > 0 {
			return usageError(c, "--install takes no names: it is about all sandboxes that run")
		}
		if !install {
			text, err := s.SSHConfig(names)
			return firstError(a.write(text), err)
		}
		path, changed, err := s.InstallSSHConfig(c.Context())
		if err != nil {
			return err
		}
		text := " includes the sandboxes already"
		if changed {
			text = " includes the sandboxes now: one line was added at its beginning"
		}
		return a.write(term.Escape(path) + text + "\nnext: ssh forage-NAME\n")
	}))
	c.ValidArgsFunction = a.completeNames
	c.Flags().BoolVar(&install, "install", false, "have ~/.ssh/config include them, and keep them up to date")
	return c
}

func newCp(a *app) *cobra.Command {
	what := "copy what, and where to?"
	c := command("cp", wants(what, what), a.with(a.serviceAnyway, func(c *cobra.Command, s *sandbox.Service, args []string) error {
		progress := a.progress("copying")
		defer progress.end()
		copied, err := s.Copy(c.Context(), args[0], args[1], func(n int64) { progress.say(term.Bytes(n)) })
		progress.end()
		for _, skipped := range copied.Skipped {
			a.note("not copied: " + term.Escape(skipped))
		}
		if more := copied.SkippedCount - len(copied.Skipped); more > 0 {
			a.note(fmt.Sprintf("not copied: %d more", more))
		}
		return err
	}))
	c.ValidArgsFunction = func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		names, _ := a.completeNames(c, nil, prefix)
		for i := range names {
			names[i] += ":"
		}
		return names, cobra.ShellCompDirectiveNoSpace
	}
	return c
}

func newForward(a *app) *cobra.Command {
	c := command("forward", nil, a.with(a.serviceAnyway, func(c *cobra.Command, s *sandbox.Service, args []string) error {
		name := args[0]
		var all []sandbox.Forwarding
		for _, text := range args[1:] {
			forwarding, err := sandbox.ParseForwarding(text)
			if err != nil {
				return forage.WithHint(usageError(c, "%w", err), forage.Hint(err))
			}
			all = append(all, forwarding)
		}
		if len(all) == 0 {
			var err error
			if all, err = s.Listening(c.Context(), name); err != nil {
				return err
			}
		}
		return s.Forward(c.Context(), name, all, func(f sandbox.Forwarding) error {
			return a.write(fmt.Sprintf("localhost:%d -> %s port %d\n", f.Local, name, f.Remote))
		})
	}))
	c.Args = func(c *cobra.Command, args []string) error {
		return oneName(c, args[:min(len(args), 1)])
	}
	c.ValidArgsFunction = a.completeName
	return c
}

func newLogs(a *app) *cobra.Command {
	var o sandbox.LogOptions
	c := a.named("logs", a.serviceAnyway, func(c *cobra.Command, s *sandbox.Service, name string) error {
		if o.Lines < 0 && (c.Flags().Changed("lines") || c.Flags().Changed("tail")) {
			return usageError(c, "--lines %d: must not be negative", o.Lines)
		}
		_, _, isTerminal := a.screen()
		if o.Raw && isTerminal {
			return usageError(c, "--raw would let the agent drive your terminal: send it to a file or a pipe")
		}
		if isTerminal {
			o.Bell = a.out
		}
		return s.Logs(c.Context(), name, o, a.out)
	})
	c.Flags().BoolVarP(&o.Follow, "follow", "f", false, "go on as more is printed, until the sandbox stops")
	c.Flags().BoolVar(&o.Raw, "raw", false, "print the bytes as the agent wrote them")
	c.Flags().IntVarP(&o.Lines, "lines", "n", -1, "show the last `N` lines only")
	c.Flags().IntVar(&o.Lines, "tail", -1, "the same as --lines")
	_ = c.Flags().MarkHidden("tail") // there it is
	return c
}
