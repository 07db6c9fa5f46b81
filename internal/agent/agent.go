// Package agent knows the AI coding tools: one file for each of them, all data. It says how an
// agent is found, installed, run without questions, told about its sandbox and watched. It reads
// and writes nothing: the planner turns what is here into files, variables and mounts.
package agent

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"forage"
)

// Agent is what Forage knows of one AI coding tool. Paths are inside the sandbox; "~/" is its home.
type Agent struct {
	Name    string   // of the agent and of its command
	About   string   // in a line, for lists
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
	// Without are variables of the same key that it complains about beside its own.
	Without []string
	// Quiet are variables that switch off updates, reports and downloads.
	Quiet map[string]string
	// Settings makes the files, variables and arguments with which it works without questions.
	Settings func(Inside) Settings
	// Rules is an example of what allow and deny of its permissions hold; "" is that it knows no
	// such rules.
	Rules string
	// Instructions are where text about the sandbox is read unasked, without a file in the
	// workspace.
	Instructions []string
	// Config says what may be copied from the user's own settings folder.
	Config Config
	// Activity says how the agent's terminal shows what it does.
	Activity Activity
}

// Inside is what an agent's settings are made from.
type Inside struct {
	Home        string // the agent's, inside
	Dir         string // its settings folder, inside
	Work        string // the folder that it starts in, inside; "" is forage.WorkspacePath
	Permissions forage.Permissions
	Key         string         // the placeholder of its key; "" where it has none, or a login
	Template    map[string]any // settings that the template has for it; they go over ours
	Own         map[string]any // the user's settings that may come in; ours go over them
	Servers     map[string]any // MCP servers that may come in, without their variables
	// ReadOnly: the agent may not change what came in.
	ReadOnly bool
}

// Settings are what an agent finds inside. Nothing of it changes the host.
type Settings struct {
	Files []forage.File
	Env   map[string]string
	Args  []string // put behind the first word of the command
}

// Config is an agent's settings folder, and what of the user's own may come in. Credentials never
// may. What runs by itself may where the user asks for it.
type Config struct {
	Host     string   // below the caller's home, as ".claude"
	Inside   string   // "~/.claude"
	Variable string   // that names another folder inside; "" where the agent knows none
	Copy     []string // files and folders that may come in: instructions, skills, commands
	// File is its settings file, of JSON or TOML by its name, Keys what of it may come in ("a.b" is
	// b in a).
	File string
	Keys []string
	// HookCopy and HookKeys come in too where hooks are asked for.
	HookCopy, HookKeys []string
	Servers            Servers
}

// Servers is where an agent has its MCP servers.
type Servers struct {
	File string // relative to the settings folder; "" is Config.File
	Key  string // "" where it has none
}

// Activity tells what an agent does from what it writes to its terminal. All of it can be forged
// by the agent, so it is shown and never relied on.
type Activity struct {
	Working []string // prefixes of the terminal's title while it works
	Waiting []string // prefixes of the title while it waits for its user
	OSC     string   // number of an operating system command that says state=working|idle|done; "" is none
}

// All are the agents that Forage knows.
func All() []Agent {
	return []Agent{claude(), codex(), gemini(), opencode(), aider(), copilot(), amp()}
}

// Lookup is the agent whose command is called like the last part of command.
func Lookup(command string) (Agent, bool) {
	for _, a := range All() {
		if a.Name == path.Base(command) {
			return a, true
		}
	}
	return Agent{}, false
}

// WithTask is a template's agent with a task as its last argument; where there is no agent, a shell
// with the task as its line.
func WithTask(agent []string, task string) []string {
	if len(agent) == 0 {
		agent = []string{"sh", "-c"}
	}
	return append(slices.Clip(agent), task)
}

// jsonFile is a settings file of JSON. One below the home is the agent's own, who may write to it.
func jsonFile(name string, content map[string]any, owned bool) forage.File {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(content); err != nil {
		panic(err) // strings, numbers, truths, and lists and maps of them always marshal
	}
	f := forage.File{Path: name, Content: text.Bytes(), Owned: owned}
	if owned {
		f.Mode = 0o600
	}
	return f
}

// over is under with what upper says: tables key by key, lists one behind the other.
func over(under, upper map[string]any) map[string]any {
	merged := make(map[string]any, len(under)+len(upper))
	for key, value := range under {
		merged[key] = value
	}
	for key, value := range upper {
		switch have := merged[key].(type) {
		case map[string]any:
			if more, ok := value.(map[string]any); ok {
				value = over(have, more)
			}
		case []any:
			if more, ok := value.([]any); ok {
				value = append(append([]any{}, have...), more...)
			}
		}
		merged[key] = value
	}
	return merged
}

// list is words as JSON has them.
func list(words []string) []any {
	items := make([]any, len(words))
	for i, word := range words {
		items[i] = word
	}
	return items
}

// rule takes "tool(argument)" apart; argument is "" for "tool".
func rule(text string) (tool, argument string) {
	tool, rest, found := strings.Cut(text, "(")
	if !found {
		return text, ""
	}
	return tool, strings.TrimSuffix(rest, ")")
}

// ordered is an object of JSON whose members have an order.
type ordered []member

type member struct {
	key   string
	value any
}

// MarshalJSON writes the members. A key that is there twice is written twice: the last one counts.
func (o ordered) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.WriteString(quote(m.key) + ":")
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
