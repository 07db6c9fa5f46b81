package gitrepo

import (
	"context"
	"errors"
	"io/fs"
	"regexp"
	"strings"
	"sync"

	"forage"
	"forage/internal/hostexec"
	"forage/internal/workspace"
)

// ReadConfig reads one file of git's configuration: the values of each key, in order. A file that
// is not there is empty. git is asked about what parseConfig can't read.
func ReadConfig(ctx context.Context, file string) (found map[string][]string, err error) {
	text, err := workspace.ReadFile(file, 0, maxConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	found, ok := parseConfig(string(text))
	if !ok {
		if found, err = askConfig(ctx, text); err != nil {
			return nil, forage.Errorf(forage.ErrUnsupported, "reading %s: %w", file, err)
		}
	}
	return found, nil
}

// askConfig is what git reads in a text, which it gets as data.
func askConfig(ctx context.Context, text []byte) (map[string][]string, error) {
	out, err := hostexec.Run(ctx, hostexec.Command{
		Argv: []string{"git", "config", "--null", "--no-includes", "--file", "-", "--list"}, Env: environment(), Stdin: text, Output: 2 * maxConfig,
	})
	if err != nil {
		return nil, gitError(err, out)
	}
	found := make(map[string][]string)
	for setting := range fields(out.Stdout) {
		key, value, valued := strings.Cut(setting, "\n")
		if !valued {
			value = "true"
		}
		found[key] = append(found[key], value)
	}
	return found, nil
}

// configLines are the sections and the settings that git writes. What is quoted inside, continued or
// followed by a comment is left to git.
var configLines = sync.OnceValue(func() [2]*regexp.Regexp {
	return [2]*regexp.Regexp{
		regexp.MustCompile(`^\[([A-Za-z0-9-]+)(?: "([^"\\\x00]+)")?\]$`),
		regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*) *(= *(?:"([^"\\\x00-\x1f]*)"|([^"\\;#\x00-\x1f]*)))?$`),
	}
})

// parseConfig reads the plain lines of git-config(1), which is nearly all that there is. ok is false
// where another one is found: git is asked then, which takes as long as the rest of a plan.
func parseConfig(text string) (found map[string][]string, ok bool) {
	found = make(map[string][]string)
	lines, section := configLines(), ""
	for line := range strings.Lines(text) {
		line = strings.Trim(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), " \t")
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if named := lines[0].FindStringSubmatch(line); named != nil {
			if section = strings.ToLower(named[1]) + "."; named[2] != "" {
				section += named[2] + "."
			}
			continue
		}
		setting := lines[1].FindStringSubmatch(line)
		if setting == nil || section == "" {
			return nil, false
		}
		key, value := section+strings.ToLower(setting[1]), setting[3]+setting[4]
		if setting[2] == "" {
			value = "true"
		}
		found[key] = append(found[key], value)
	}
	return found, true
}
