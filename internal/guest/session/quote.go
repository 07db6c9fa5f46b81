package session

import "strings"

// shellArguments makes argv what tmux takes as a window's command: several
// arguments are executed as they are; a single one would go through a shell, so it is
// quoted for one.
func shellArguments(argv []string) []string {
	if len(argv) == 1 {
		return []string{escapeSeparator("exec " + quote(argv[0]))}
	}
	args := make([]string, len(argv))
	for i, arg := range argv {
		args[i] = escapeSeparator(arg)
	}
	return args
}

// quote makes s one word of a POSIX shell.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
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
