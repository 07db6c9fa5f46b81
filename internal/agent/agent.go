// Package agent knows the AI coding tools: one file for each of them, all data. It says how an
// agent is found, installed, run without questions, told about its sandbox and watched. It reads
// and writes nothing: the planner turns what is here into files, variables and mounts.
package agent

import (
	"path"

	"forage"
)

// Agent is what Forage knows of one AI coding tool. Paths are inside the sandbox; "~/" is its home.
type Agent struct {
	Name    string   // of the agent and of its command
	Install string   // the command that installs it on the host, for errors
	Command []string // argv of its screen
	// Headless is argv that works on one prompt and ends; the prompt follows as the last argument.
	Headless []string
	// Resume is argv that goes on with the last conversation of this folder.
	Resume []string
	// Hosts are its API and its login. Everything else it asks for is switched off by Quiet.
	Hosts []string
	// Secret is the preset of its key, AuthEnvVar the variable that the key is expected in.
	Secret, AuthEnvVar string
	// Quiet are variables that switch off updates, reports and downloads.
	Quiet map[string]string
	// Settings makes the files, variables and arguments with which it works without questions.
	Settings func(Permissions) Settings
	// Instructions are where text about the sandbox is read unasked, without a file in the workspace.
	Instructions []string
	// Config says what may be copied from the user's own settings folder.
	Config Config
	// Activity says how the agent's terminal shows what it does.
	Activity Activity
}

// Permissions say what an agent may do without asking. The sandbox is the wall in any case.
type Permissions struct {
	SkipAll bool     // ask for nothing
	Allow   []string // in the agent's own format
	Deny    []string // holds even with SkipAll, where the agent knows such rules
}

// Settings are what an agent finds inside. Nothing of it changes the host.
type Settings struct {
	Files []forage.File
	Env   map[string]string
	Args  []string // put behind the first word of the command
}

// Config is an agent's settings folder.
type Config struct {
	Host   string   // below the caller's home, as ".claude"
	Inside string   // "~/.claude"
	Copy   []string // files and folders that may come in: instructions, skills, commands
	// Keys are those of its settings file that may come in, by file. Hooks and credentials never are.
	Keys map[string][]string
}

// Activity tells what an agent does from what it writes to its terminal. All of it can be forged
// by the agent, so it is shown and never relied on.
type Activity struct {
	Working []string // prefixes of the terminal's title while it works
	Waiting []string // prefixes of the title while it waits for its user
	OSC     string   // number of an operating system command that says state=working|idle|done; "" is none
}

// All are the agents that Forage knows.
func All() []Agent { return []Agent{claude()} }

// Lookup is the agent whose command is called like the last part of command.
func Lookup(command string) (Agent, bool) {
	for _, a := range All() {
		if a.Name == path.Base(command) {
			return a, true
		}
	}
	return Agent{}, false
}
