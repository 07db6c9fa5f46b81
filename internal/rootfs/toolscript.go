package rootfs

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
)

// scriptHead is how much of a script is looked at.
const scriptHead = 4 << 10

// startedBy returns the programs that the file at path starts, by name or by
// absolute path, as far as that can be told from how scripts begin: the interpreter in the
// first line, and for the launchers that pnpm writes what they launch. None for what is no script.
func startedBy(path string) ([]string, error) {
	head, err := headOf(path)
	if err != nil {
		return nil, err
	}
	line, isScript := bytes.CutPrefix(head, []byte("#!"))
	if !isScript {
		return nil, nil
	}
	line, body, _ := bytes.Cut(line, []byte("\n"))
	interpreter := interpreterOf(string(line))
	if interpreter == "" {
		return nil, nil
	}
	started := []string{interpreter}
	if filepath.Base(interpreter) == "sh" {
		started = append(started, launched(string(body), filepath.Dir(path))...)
	}
	return started, nil
}

func headOf(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	head := make([]byte, scriptHead)
	n, _ := file.Read(head) // an empty file is no script
	return head[:n], nil
}

// interpreterOf is the program that a script's first line names (execve(2)):
// an absolute path, or the name that env looks up; "" is none.
func interpreterOf(line string) string {
	words := strings.Fields(line)
	if len(words) == 0 {
		return ""
	}
	if filepath.Base(words[0]) != "env" {
		return words[0]
	}
	for _, word := range words[1:] {
		if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
			return word
		}
	}
	return ""
}

// launched are the scripts that a launcher of pnpm's starts:
//
//	exec node  "$basedir/global/5/node_modules/@anthropic-ai/claude-code/cli.js" "$@"
func launched(body, dir string) []string {
	var found []string
	for {
		_, rest, ok := strings.Cut(body, `"$basedir/`)
		if !ok {
			return found
		}
		relative, rest, ok := strings.Cut(rest, `"`)
		if !ok {
			return found
		}
		if path := filepath.Join(dir, relative); executable(path) {
			found = append(found, path)
		}
		body = rest
	}
}
