package term

import "strings"

// ShellWords writes argv as a shell reads it back (POSIX quoting). It escapes nothing for a
// terminal.
func ShellWords(argv []string) string {
	words := make([]string, len(argv))
	for i, arg := range argv {
		words[i] = ShellWord(arg)
	}
	return strings.Join(words, " ")
}

// ShellWord is ShellWords for one argument.
func ShellWord(arg string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+,./:@%"
	if arg != "" && strings.Trim(arg, plain) == "" {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
