package inject

import (
	"path"
	"strings"

	"forage"
	"forage/internal/term"
)

// WrapperPath is the folder of wrappers inside, in PATH before all that is not ours.
const WrapperPath = forage.RunPath + "/wrappers"

// SecretPath is where the value of a secret is inside, with forage.SecretsWrapped.
func SecretPath(name string) string { return path.Join(forage.SecretsPath, name) }

// Wrappers hand secrets to agents the older way: the agent's command is one of ours,
// which reads the value from its file and exports it to the real command alone. What runs as the
// agent can read the file too. Agents without a variable get none.
func Wrappers(b forage.Binding, agents []forage.Agent) Contribution {
	c := Contribution{From: "secret " + b.Secret}
	for _, agent := range agents {
		if agent.Secret != b.Secret || agent.AuthEnvVar == "" || len(agent.Command) == 0 {
			continue
		}
		c.Path = []string{WrapperPath}
		c.Files = append(c.Files, forage.File{
			Path: WrapperOf(agent.Command[0]), Mode: 0o555,
			Content: []byte(wrapper(agent.Command[0], agent.AuthEnvVar, SecretPath(b.Secret))),
		})
	}
	return c
}

// WrapperOf is the wrapper of a command.
func WrapperOf(command string) string { return path.Join(WrapperPath, path.Base(command)) }

// wrapper is a shell script that runs command, the one of that name in the
// rest of PATH if it is no path, with the content of file in variable.
func wrapper(command, variable, file string) string {
	script := "#!/bin/sh\n" +
		"# Made by Firefly Forage: hands a secret to this one command.\n" +
		"IFS= read -r " + variable + " <" + term.ShellWord(file) + ` || [ -n "$` + variable + `" ] || exit 1` + "\n" + // no other program is needed, which might be a wrapper
		"export " + variable + "\n"
	if strings.Contains(command, "/") {
		return script + "exec " + term.ShellWord(command) + ` "$@"` + "\n"
	}
	return script + `rest=$PATH:
while [ -n "$rest" ]; do
	dir=${rest%%:*}
	rest=${rest#*:}
	if [ "$dir" != ` + WrapperPath + ` ] && [ -f "$dir"/` + term.ShellWord(command) + ` ] && [ -x "$dir"/` + term.ShellWord(command) + ` ]; then
		exec "$dir"/` + term.ShellWord(command) + ` "$@"
	fi
done
echo ` + term.ShellWord(command+": command not found") + ` >&2
exit 127
`
}
