package session

import "strings"

// lingering runs its arguments and ends a moment after them, as they did: tmux throws away what it
// hasn't written to the log yet when a window's program ends.
const lingering = `"$@"; status=$?; sleep 0.2; exit $status`

// windowArguments makes argv what tmux takes as a window's command: several
// arguments, which it executes as they are. One alone it would give to a shell.
func windowArguments(argv []string) []string {
	args := []string{"/bin/sh", "-c", escapeSeparator(lingering), "sh"}
	for _, arg := range argv {
		args = append(args, escapeSeparator(arg))
	}
	return args
}

// escapeSeparator keeps tmux from taking a ';' at the end of an argument for
// the end of its command (tmux(1), "Parsing syntax").
func escapeSeparator(arg string) string {
	if rest, ok := strings.CutSuffix(arg, ";"); ok {
		return rest + `\;`
	}
	return arg
}

// escapeFormat keeps tmux from expanding s as a format, which can run programs
// (tmux(1), "Formats").
func escapeFormat(s string) string {
	return strings.ReplaceAll(s, "#", "##")
}
