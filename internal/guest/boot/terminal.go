package boot

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// terminfo is where descriptions of terminals may be (terminfo(5)).
var terminfo = []string{"/usr/share/terminfo", "/lib/terminfo", "/etc/terminfo", "/usr/lib/terminfo", "/run/current-system/sw/share/terminfo"}

// usualTerminal is what most terminals can do, whatever they are called.
const usualTerminal = "xterm-256color"

// HasTerminal says whether programs inside know that terminal.
func HasTerminal(name string, env []string) bool {
	if name == "" || strings.ContainsAny(name, "/\x00") {
		return false
	}
	folders := append([]string{Getenv(env, "TERMINFO"), filepath.Join(Getenv(env, "HOME"), ".terminfo")}, terminfo...)
	for _, folder := range folders {
		for _, first := range []string{name[:1], fmt.Sprintf("%02x", name[0])} {
			if _, err := os.Stat(filepath.Join(folder, first, name)); filepath.IsAbs(folder) && err == nil {
				return true
			}
		}
	}
	return false
}

// Terminal is what TERM is for the user's terminal: one that programs inside don't know is called
// as most terminals are, if they know that.
func Terminal(name string, env []string) string {
	if !HasTerminal(name, env) && HasTerminal(usualTerminal, env) {
		return usualTerminal
	}
	return name
}
