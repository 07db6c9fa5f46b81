package gitrepo

import (
	"context"
	"errors"
	"io/fs"
	"strings"

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

// parseConfig reads a text of git's configuration as git does: git-config(1), "Syntax". ok is false
// for what git refuses, for what its versions read differently, and for what is rare: git is asked
// then, which takes as long as the rest of a plan.
func parseConfig(text string) (found map[string][]string, ok bool) {
	found = make(map[string][]string)
	section := ""
	for line := range strings.Lines(text) {
		line = strings.Trim(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), " \t")
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
			continue
		case line[0] == '[':
			if section, ok = sectionOf(line); !ok {
				return nil, false
			}
			continue
		}
		key, text, assigned := strings.Cut(line, "=")
		key = strings.ToLower(strings.TrimRight(key, " \t"))
		value := "true"
		if assigned {
			if value, ok = valueOf(text); !ok {
				return nil, false
			}
		}
		if section == "" || !isWord(key) || strings.Trim(key[:1], "-0123456789") == "" {
			return nil, false
		}
		found[section+key] = append(found[section+key], value)
	}
	return found, true
}

// sectionOf is what comes before the keys of a section.
func sectionOf(line string) (prefix string, ok bool) {
	inner, ok := strings.CutSuffix(line[1:], "]")
	name, sub, has := strings.Cut(inner, `"`)
	if has {
		named := strings.TrimRight(name, " \t")
		sub, ok = strings.CutSuffix(sub, `"`)
		ok = ok && named != name && !strings.ContainsAny(sub, "\"\\\x00") && strings.HasSuffix(line, `"]`)
		name, sub = named, sub+"."
	}
	return strings.ToLower(name) + "." + sub, ok && isWord(name)
}

// valueOf is a value without its quotes and comment.
func valueOf(text string) (value string, ok bool) {
	var b strings.Builder
	quoted, kept := false, 0 // of the value so far: spaces at its end don't count
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c < ' ': // a tab, which only new versions keep
			return "", false
		case c == ' ' && !quoted && b.Len() == 0:
		case c == '"':
			quoted, kept = !quoted, b.Len()
			continue
		case !quoted && (c == '#' || c == ';'):
			return b.String()[:kept], true
		case c == '\\':
			i++
			if i == len(text) {
				return "", false
			}
			at := strings.IndexByte(`ntb"\`, text[i])
			if at < 0 {
				return "", false
			}
			b.WriteByte("\n\t\b\"\\"[at])
		default:
			b.WriteByte(c)
		}
		if quoted || text[i] != ' ' {
			kept = b.Len()
		}
	}
	return b.String()[:kept], !quoted
}

// isWord says whether s can be the name of a section or a key.
func isWord(s string) bool {
	return s != "" && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
