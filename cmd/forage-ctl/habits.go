package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// otherCommands are docker's names of commands, each with our command that does it.
func otherCommands() map[string]string {
	return map[string]string{
		"ls": "ps", "list": "ps", "rm": "down", "remove": "down", "kill": "stop",
		"attach": "ssh", "inspect": "status", "copy": "cp",
	}
}

// otherFlags are flags that hands know from docker, and what to type.
func otherFlags() map[string]string {
	ports := "ports need no flag: 'forage-ctl forward NAME 3000' reaches a server inside"
	stays := "'forage-ctl up NAME' makes a sandbox that stays in the background"
	return map[string]string{
		"publish": ports, "p": ports, "expose": ports,
		"detach": stays, "d": stays,
		"gpus":       "GPUs can't be passed into a sandbox: start the model server on the host, and allow it with --allow host.forage.internal:PORT",
		"device":     "devices can't be passed into a sandbox",
		"privileged": "a sandbox has no privileges to give; --mount, --allow and limits say what it may use",
		"rm":         "'forage-ctl run' removes its sandbox by itself, and 'forage-ctl down NAME' one that was made by up",
		"workdir":    "commands start in /workspace; start another with: sh -c 'cd FOLDER && COMMAND'",
		"user":       "commands run as you; --identity-mode says under which name",
		"entrypoint": "the command comes after '--'",
		"memory":     "a template has limits: resourceLimits = { memoryMax = \"4G\" }",
		"cpus":       "a template has limits: resourceLimits = { cpuQuota = \"200%\" }",
		"i":          "'forage-ctl ssh NAME' attaches to the terminal of a sandbox that stays",
	}
}

// ourName returns args with another name of a command replaced by ours.
func ourName(args []string) []string {
	at := commandAt(args)
	if at == len(args) || otherCommands()[args[at]] == "" {
		return args
	}
	args = slices.Clone(args)
	args[at] = otherCommands()[args[at]]
	return args
}

// dockerTerminal returns args with docker's -it as our --tty: alone, -t names a template. What
// follows the flags of run and exec is the command's own.
func dockerTerminal(root *cobra.Command, args []string) []string {
	at := commandAt(args)
	if at == len(args) || args[at] != "run" && args[at] != "exec" {
		return args
	}
	c, named := root.Commands()[0], args[at] == "run" // exec has a name before the command
	for i := at + 1; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "-it" || arg == "-ti":
			args = slices.Clone(args)
			args[i] = "--tty"
		case arg == "--":
			return args
		case !strings.HasPrefix(arg, "-"):
			if named {
				return args
			}
			named = true
		case takesNext(c, arg):
			i++
		}
	}
	return args
}

// takesNext says whether a flag of c has its value in the next argument.
func takesNext(c *cobra.Command, arg string) bool {
	var flag *pflag.Flag
	if name, long := strings.CutPrefix(arg, "--"); long {
		flag = c.Flag(name)
	} else if len(arg) == 2 {
		flag = c.Flags().ShorthandLookup(arg[1:])
	}
	return flag != nil && flag.NoOptDefVal == ""
}
