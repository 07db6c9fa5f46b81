package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"forage"
)

// groupTitles are the headings of the groups of commands.
func groupTitles() map[string]string {
	return map[string]string{
		groupLifecycle: "Sandboxes",
		groupReach:     "Reaching in",
		groupWork:      "Work",
		groupPolicy:    "Policy",
		groupRest:      "The rest",
	}
}

const overview = `Forage runs AI coding agents, or any command, in isolated and disposable
sandboxes on your own machine. A sandbox sees the project and nothing else of
your files, and talks to the hosts that you named and to nothing else.

  forage-ctl run -- claude          an agent in a throw-away sandbox, here
  forage-ctl up work -w ~/project   a sandbox that stays, and that you come back to
`

// helpWidth is where help texts break, in columns.
const helpWidth = 80

// newHelp makes the help command.
func newHelp(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(ourName(args))
			if err != nil || len(rest) > 0 {
				return usageError(c, "there is no command %q", strings.Join(args, " "))
			}
			a.help(about, nil)
			return nil
		},
	}
}

// help prints what c is for, like a page of a manual. It is the help function
// of every command.
func (a *app) help(c *cobra.Command, _ []string) {
	a.helpErr = a.write(page(c))
}

// page is the page of the manual about c.
func page(c *cobra.Command) string {
	if !c.HasParent() {
		return frontPage(c)
	}
	w := &strings.Builder{}
	fmt.Fprintf(w, "%s.\n\nUsage:\n  %s\n", c.Short, c.UseLine())
	for _, sub := range c.Commands() {
		fmt.Fprintf(w, "  %s\n", sub.UseLine())
	}
	if c.Long != "" {
		fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(c.Long))
	}
	if c.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", indent(c.Example))
	}
	if flags := c.LocalNonPersistentFlags(); flags.HasAvailableFlags() {
		fmt.Fprintf(w, "\nFlags:\n%s", flags.FlagUsagesWrapped(helpWidth))
	}
	fmt.Fprintf(w, "\nGlobal flags:\n%s", c.InheritedFlags().FlagUsagesWrapped(helpWidth))
	fmt.Fprintf(w, "\nExit status:\n")
	own := " 0 1 64 " + c.Annotations[exitNote] + " "
	for _, line := range exitStatuses() {
		if strings.Contains(own, " "+line.code+" ") {
			fmt.Fprintf(w, "  %-7s%s\n", line.code, line.meaning)
		}
	}
	return w.String()
}

// frontPage is the overview of all commands.
func frontPage(root *cobra.Command) string {
	w := &strings.Builder{}
	fmt.Fprintf(w, "%s\nUsage:\n  forage-ctl COMMAND [flags]\n", overview)
	short := map[string]string{}
	for _, c := range root.Commands() {
		short[c.Name()] = c.Short
	}
	for _, group := range []string{groupLifecycle, groupReach, groupWork, groupPolicy, groupRest} {
		fmt.Fprintf(w, "\n%s:\n", groupTitles()[group])
		for _, e := range entries() { // in our order: cobra sorts
			if e.group == group {
				fmt.Fprintf(w, "  %-12s%s\n", e.name, short[e.name])
			}
		}
	}
	fmt.Fprintf(w, "\nGlobal flags:\n%s", root.PersistentFlags().FlagUsagesWrapped(helpWidth))
	fmt.Fprintf(w, "\nExit status:\n")
	for _, line := range exitStatuses() {
		fmt.Fprintf(w, "  %-7s%s\n", line.code, line.meaning)
	}
	fmt.Fprintf(w, "\n'forage-ctl COMMAND --help' explains a command.\n")
	return w.String()
}

// exitNote is the annotation under which a command says which exit statuses
// of its own it has, besides 0, 1 and 64.
const exitNote = "exit"

type exitStatus struct{ code, meaning string }

// exitStatuses is what our exit statuses mean; forage.ExitCode gives them.
func exitStatuses() []exitStatus {
	code := func(err error) string { return fmt.Sprint(forage.ExitCode(err)) }
	return []exitStatus{
		{"0", "success"},
		{"1", "an error that none of the others names"},
		{code(forage.ErrNotFound), "there is no such sandbox"},
		{code(forage.ErrTemplateNotFound), "there is no such template"},
		{code(forage.ErrNoPort), "no port is left in portRange"},
		{code(forage.ErrStart), "the sandbox could not be started"},
		{code(forage.ErrUnsupported), "this runtime or this host can't do what was asked for"},
		{code(forage.ErrRefused), "refused: work would be lost, or the name or path is in use"},
		{code(forage.ErrDenied), "denied by policy: the system's or the project's file forbids it"},
		{code(forage.ErrUsage), "the command line or the configuration is wrong"},
		{"124", "the command ran out of time (--timeout)"},
		{"126", "the command can't be executed"},
		{"127", "the command is not there, inside"},
		{"128+N", "signal N ended the command, or forage-ctl itself"},
		{"N", "what the command inside returned, once it has started"},
	}
}

func indent(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return "  " + strings.Join(lines, "\n  ")
}
