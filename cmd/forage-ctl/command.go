package main

import (
	"embed"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/sandbox"
	"forage/internal/term"
)

// manual has a page for each command: usage, a short text, the exit statuses that it has besides
// 0, 1 and 64, a long text, and examples.
//
//go:embed manual/*.txt
var manual embed.FS

// command is the command of that name, as its page of the manual describes it.
func command(name string, args cobra.PositionalArgs, run func(c *cobra.Command, args []string) error) *cobra.Command {
	page, err := manual.ReadFile("manual/" + strings.ReplaceAll(name, " ", "-") + ".txt")
	if err != nil {
		panic(err) // each command has one: a test builds them all
	}
	text, examples, _ := strings.Cut(string(page), "\nExamples:\n")
	head, long, _ := strings.Cut(text, "\n\n")
	c := &cobra.Command{
		Long: strings.TrimSpace(long), Example: strings.TrimSpace(examples), Annotations: map[string]string{},
		Args: args, RunE: run, ValidArgsFunction: cobra.NoFileCompletions, DisableFlagsInUseLine: true,
	}
	for line := range strings.Lines(head) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), ": "); key {
		case "usage":
			c.Use = value
		case "short":
			c.Short = value
		case exitNote:
			c.Annotations[exitNote] = value
		}
	}
	return c
}

// opener is app.service or app.serviceAnyway.
type opener func() (*sandbox.Service, error)

// with opens the service for a command.
func (a *app) with(open opener, run func(*cobra.Command, *sandbox.Service, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		service, err := open()
		if err != nil {
			return err
		}
		return run(c, service, args)
	}
}

// unnamed is a command about no sandbox in particular. open opens the service.
func (a *app) unnamed(name string, open opener, run func(*cobra.Command, *sandbox.Service) error) *cobra.Command {
	return command(name, noArgs, a.with(open, func(c *cobra.Command, s *sandbox.Service, _ []string) error { return run(c, s) }))
}

// named is a command about one sandbox.
func (a *app) named(name string, open opener, run func(c *cobra.Command, s *sandbox.Service, name string) error) *cobra.Command {
	c := command(name, oneName, a.with(open, func(c *cobra.Command, s *sandbox.Service, args []string) error { return run(c, s, args[0]) }))
	c.ValidArgsFunction = a.completeName
	return c
}

// group is a command that only has others below it.
func group(name string, commands ...*cobra.Command) *cobra.Command {
	c := command(name, nil, func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usageError(c, "it can't %q", args[0])
		}
		var names []string
		for _, sub := range commands {
			names = append(names, sub.Name())
		}
		last := len(names) - 1
		return usageError(c, "%s or %s?", strings.Join(names[:last], ", "), names[last])
	})
	c.AddCommand(commands...)
	return c
}

// wants wants one argument for each question, and asks the first that has none.
func wants(questions ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch n := len(args); {
		case n < len(questions):
			return usageError(c, "%s", questions[n])
		case n > len(questions):
			return usageError(c, "unexpected argument %q", args[len(questions)])
		}
		return nil
	}
}

func noArgs(c *cobra.Command, args []string) error { return wants()(c, args) }

// names wants names of sandboxes, or nothing.
func names(_ *cobra.Command, args []string) error {
	for _, name := range args {
		if err := forage.CheckName(name); err != nil {
			return err
		}
	}
	return nil
}

// oneName wants exactly one sandbox name.
func oneName(c *cobra.Command, args []string) error {
	return firstError(wants("which sandbox?")(c, args), names(c, args))
}

// nameAndPaths wants one sandbox name and, after --paths, as many more of its paths as are given:
// `--paths a b`.
func nameAndPaths(c *cobra.Command, args []string) error {
	if len(args) > 1 && c.Flags().Changed("paths") {
		args = args[:1]
	}
	return oneName(c, args)
}

// completeName offers the sandboxes for a command that takes one.
func (a *app) completeName(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeNames(c, args, prefix)
}

// completeNames offers the sandboxes that args does not name yet.
func (a *app) completeNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.offer(func(s *sandbox.Service) []string {
		names, _ := s.Names() // those that are known are offered
		return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) })
	})
}

// offer offers values for an argument or a flag.
func (a *app) offer(values func(*sandbox.Service) []string) ([]string, cobra.ShellCompDirective) {
	service, err := a.open(func(error) {}) // the command says what is wrong with the configuration
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return values(service), cobra.ShellCompDirectiveNoFileComp
}

// table is a table for stdout.
type table struct{ *term.Table }

func newTable(cells ...string) table { return table{term.NewTable(cells...)} }

func (t table) print(a *app) error { return t.Write(a.out) }

// field adds a row of a name and what there is of it, if there is something.
func (t table) field(name, text string) {
	if text != "" {
		t.Row(name, text)
	}
}

// printer prints it later.
func (t table) printer(a *app) func() error { return func() error { return t.print(a) } }

// firstError returns the first error that is one.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
