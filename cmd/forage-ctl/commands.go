package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/sandbox"
	"forage/internal/term"
)

// Groups of commands, as `forage-ctl help` shows them.
const (
	groupLifecycle = "lifecycle"
	groupReach     = "reach"
	groupWork      = "work"
	groupPolicy    = "policy"
	groupRest      = "rest"
)

// entry is one command of the program, not yet built.
type entry struct {
	name  string
	group string
	build func(*app) *cobra.Command
}

// entries returns all commands, in the order in which help shows them.
func entries() []entry {
	return []entry{
		{"run", groupLifecycle, newRun},
		{"up", groupLifecycle, newUp},
		{"start", groupLifecycle, does("start", false, (*sandbox.Service).Start)},
		{"stop", groupLifecycle, does("stop", true, (*sandbox.Service).Stop)},
		{"restart", groupLifecycle, does("restart", false, restart)},
		{"reset", groupLifecycle, does("reset", false, (*sandbox.Service).Reset)},
		{"down", groupLifecycle, newDown},
		{"ps", groupLifecycle, newPs},
		{"status", groupLifecycle, newStatus},
		{"logs", groupLifecycle, newLogs},
		{"gc", groupLifecycle, newGC},
		{"exec", groupReach, newExec},
		{"shell", groupReach, newShell},
		{"ssh", groupReach, newSSH},
		{"ssh-cmd", groupReach, newSSHCmd},
		{"ssh-config", groupReach, newSSHConfig},
		{"cp", groupReach, newCp},
		{"forward", groupReach, newForward},
		{"open", groupReach, newOpen},
		{"pick", groupReach, newPick},
		{"gateway", groupReach, newGateway},
		{"web", groupReach, newWeb},
		{"diff", groupWork, newDiff},
		{"apply", groupWork, newApply},
		{"snapshot", groupWork, newSnapshot},
		{"fork", groupWork, newFork},
		{"quarantine", groupWork, newQuarantine},
		{"volumes", groupWork, newVolumes},
		{"images", groupWork, newImages},
		{"network", groupPolicy, newNetwork},
		{"policy", groupPolicy, newPolicy},
		{"audit", groupPolicy, newAudit},
		{"top", groupPolicy, newTop},
		{"proxy", groupPolicy, newProxy},
		{"templates", groupRest, newTemplates},
		{"runtimes", groupRest, newRuntimes},
		{"doctor", groupRest, newDoctor},
		{"config", groupRest, newConfig},
		{"version", groupRest, newVersion},
		{"completion", groupRest, newCompletion},
	}
}

// laterCommands belong to the interface and are not in this version.
var laterCommands = []string{
	"requests", "approve", "deny", "grants",
	"agent", "monitor", "mcp",
}

// tree returns the root command with the one command below it that args asks
// for: building all of them would take longer than most of them run. Help and
// completion need all of them and get them.
func (a *app) tree(args []string) (*cobra.Command, error) {
	root := &cobra.Command{
		Use:               "forage-ctl",
		Short:             "Run AI coding agents in isolated, disposable sandboxes",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			// Without any command: the screen, where there is something to show.
			if a.version {
				return a.printVersion(format{})
			}
			if a.interactive() {
				if service, err := a.open(func(error) {}); err == nil {
					if names, _ := service.Names(); len(names) > 0 {
						return a.pick(c.Context(), service, false)
					}
				}
			}
			return c.Help()
		},
	}
	root.Flags().BoolVar(&a.version, "version", false, "print the version")
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(a.help)
	root.SetHelpCommand(newHelp(a))
	// The flags that every command takes.
	flags := root.PersistentFlags()
	flags.StringVar(&a.configFile, "config", "", "read `FILE` in the place of your own configuration")
	flags.BoolVar(&a.verbose, "verbose", false, "say on stderr what is being done")
	flags.BoolVar(&a.json, "json", false, "write logs as JSON lines, and results as JSON")
	for id, title := range groupTitles() {
		root.AddGroup(&cobra.Group{ID: id, Title: title})
	}

	all := entries()
	asked := ""
	if at := commandAt(args); at < len(args) {
		asked = args[at]
	}
	only := slices.IndexFunc(all, func(e entry) bool { return e.name == asked })
	if only >= 0 {
		all = all[only : only+1]
	} else if err := knownElsewhere(asked, all); err != nil {
		return nil, err
	}
	for _, e := range all {
		c := e.build(a)
		c.GroupID = e.group
		root.AddCommand(c)
	}
	return root, nil
}

// commandAt is where in args the command's name is; without one it is their length.
func commandAt(args []string) int {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--config":
			i++
		case !strings.HasPrefix(args[i], "-"):
			return i
		}
	}
	return len(args)
}

// knownElsewhere returns nil when word is nothing or one of cobra's own
// commands, and else the error about a command that does not exist.
func knownElsewhere(word string, all []entry) error {
	switch word {
	case "", "help", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
		return nil
	}
	if slices.Contains(laterCommands, word) {
		return forage.Errorf(forage.ErrUnsupported, "%s: this version has no such command yet", word)
	}
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = e.name
	}
	hint := "'forage-ctl help' lists the commands"
	if answer := (map[string]string{
		"create": "'forage-ctl up NAME' makes a sandbox and starts it",
		"pull":   "an image is pulled when a sandbox starts; a template names it: rootfs = \"image:REF\"",
		"build":  "sandboxes use the host's programs, or an image that a template names: rootfs = \"image:REF\"",
		"port":   "'forage-ctl forward NAME 3000' reaches a server inside",
		"pause":  "'forage-ctl stop NAME' ends what runs inside; 'forage-ctl start NAME' starts the agent again",
	})[word]; answer != "" {
		hint = answer
	} else if near := term.Nearest(word, names); near != "" {
		hint = "did you mean 'forage-ctl " + near + "'?"
	}
	return forage.WithHint(forage.Errorf(forage.ErrUsage, "there is no command %q", word), hint)
}
