package inject

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/pelletier/go-toml/v2"

	"forage"
	"forage/internal/agent"
	"forage/internal/hostile"
)

// Bounds on what comes in of one agent's settings folder. It becomes a part of the sandbox's
// record.
const (
	maxSettings     = 1 << 20
	maxSettingFiles = 400
)

// Own is what comes into a sandbox of an agent's settings folder.
type Own struct {
	Files    []forage.File  // paths are relative to the folder
	Settings map[string]any // of its settings file
	Servers  map[string]any // MCP servers: command and arguments
	Notes    []string       // what was left out, and why
	size     int
}

// OwnSettings reads the settings folder dir of an agent on the host, and nothing of it but what may
// come in. No link is followed out of it. A folder that is not there is an error.
func OwnSettings(dir string, known agent.Agent, hooks bool) (Own, error) {
	var own Own
	root, err := os.OpenRoot(dir)
	if err != nil {
		return own, forage.WithHint(
			forage.Errorf(forage.ErrUsage, "hostConfigDir of %s: %w", known.Name, err), "name the folder that has the agent's settings, or leave hostConfigDir out")
	}
	defer root.Close()
	allowed, keys := known.Config.Copy, known.Config.Keys
	if hooks {
		allowed, keys = slices.Concat(allowed, known.Config.HookCopy), slices.Concat(keys, known.Config.HookKeys)
	}
	for _, name := range allowed {
		if err := own.copy(root, name); err != nil {
			return own, fmt.Errorf("hostConfigDir of %s: %w", known.Name, err)
		}
	}
	all := own.table(root, known.Config.File)
	for _, key := range keys {
		if value, ok := valueAt(all, key); ok {
			if own.Settings == nil {
				own.Settings = map[string]any{}
			}
			setAt(own.Settings, key, value)
		}
	}
	if servers := known.Config.Servers; servers.Key != "" {
		if servers.File != "" {
			beside, err := os.OpenRoot(filepath.Dir(filepath.Join(dir, servers.File)))
			if err != nil {
				return own, err
			}
			defer beside.Close()
			all = own.table(beside, path.Base(servers.File))
		}
		listed, _ := all[servers.Key].(map[string]any)
		own.servers(listed)
	}
	return own, nil
}

func (o *Own) leaveOut(name, format string, args ...any) {
	o.Notes = append(o.Notes, fmt.Sprintf("%s stays outside: %s", name, fmt.Sprintf(format, args...)))
}

// copy takes a file, or a folder with all that is in it; it may be missing.
func (o *Own) copy(root *os.Root, name string) error {
	return fs.WalkDir(root.FS(), name, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			o.leaveOut(name, "%v", err)
			return nil
		case private(path.Base(name)):
			o.leaveOut(name, "its name looks like that of a credential")
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			return nil
		}
		if entry.Type()&fs.ModeSymlink != 0 { // to a folder: its files would be missing
			if info, err := root.Stat(name); err != nil {
				o.leaveOut(name, "it is a link that leads out of the folder")
				return nil
			} else if info.IsDir() {
				o.leaveOut(name, "it is a link to a folder")
				return nil
			}
			if to, err := filepath.EvalSymlinks(filepath.Join(root.Name(), name)); err != nil || private(filepath.Base(to)) {
				o.leaveOut(name, "it is a link to what looks like a credential")
				return nil
			}
		}
		text, info, err := hostile.ReadIn(root, name, maxSettings)
		if err != nil {
			o.leaveOut(name, "%v", err)
			return nil
		}
		if o.size += len(text); o.size > maxSettings || len(o.Files) == maxSettingFiles {
			return forage.WithHint(
				forage.Errorf(forage.ErrUsage, "%s is one too many: at most %d files of %d KiB together come in", name, maxSettingFiles, maxSettings>>10),
				"make a smaller folder of settings for sandboxes, and name that one")
		}
		o.Files = append(o.Files, forage.File{Path: name, Content: text, Mode: 0o444 | uint32(info.Mode())&0o111})
		return nil
	})
}

// private says whether a file of that name is left where it is, wherever it stands.
func private(name string) bool {
	lower := strings.ToLower(name)
	if strings.HasSuffix(lower, ".md") {
		return false
	}
	return strings.HasPrefix(name, ".") || slices.ContainsFunc(credentialWords, func(word string) bool { return strings.Contains(lower, word) }) ||
		slices.Contains([]string{".pem", ".key", ".p12", ".pfx"}, path.Ext(lower))
}

// credentialWords are in the names of files, and in arguments, that hold credentials.
var credentialWords = []string{"credential", "secret", "token", "password", "passwd", "api-key", "api_key", "apikey", "bearer", "authorization", "id_rsa", "id_ed25519"}

// Keys are long, in one piece, and have digits among their letters.
const (
	keyLength = 20
	keyDigits = 4
)

// hasKey says whether a text has a word in it that could be a key.
func hasKey(text string) bool {
	words := strings.FieldsFunc(text, func(c rune) bool { return c != '-' && c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) })
	return slices.ContainsFunc(words, func(word string) bool {
		digits := 0
		for _, c := range word {
			if unicode.IsDigit(c) {
				digits++
			}
		}
		return len(word) >= keyLength && digits >= keyDigits
	})
}

// table reads a settings file; it may be missing. ~/.claude.json also has what the agent keeps of
// its work, and may be larger than what comes in.
func (o *Own) table(root *os.Root, name string) map[string]any {
	if name == "" {
		return nil
	}
	text, _, err := hostile.ReadIn(root, name, maxSettings)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var table map[string]any
	if err == nil {
		if path.Ext(name) == ".toml" && toml.Unmarshal(text, &table) != nil {
			err = errors.New("it is not valid TOML")
		} else if path.Ext(name) != ".toml" && json.Unmarshal(text, &table) != nil {
			err = errors.New("it is not plain JSON")
		}
	}
	if err != nil {
		o.leaveOut(name, "%v", err)
	}
	return table
}

// servers takes MCP servers that are started by a command: the command and its arguments. Variables
// and headers, where their credentials are, never come in.
func (o *Own) servers(listed map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		server, _ := listed[name].(map[string]any)
		command := Started(server)
		if command == "" {
			o.leaveOut("the MCP server "+name, "no command starts it")
			continue
		}
		args, err := json.Marshal([]any{server["command"], server["args"]})
		lower := strings.ToLower(string(args))
		if err != nil || strings.Contains(lower, "://") && strings.Contains(lower, "@") ||
			slices.ContainsFunc(credentialWords, func(word string) bool { return strings.Contains(lower, word) }) || hasKey(lower) {
			o.leaveOut("the MCP server "+name, "its arguments look like they hold a credential")
			continue
		}
		kept := map[string]any{}
		for _, key := range []string{"type", "command", "args", "enabled", "disabled", "timeout", "startup_timeout_sec", "tool_timeout_sec"} {
			if value, ok := server[key]; ok {
				kept[key] = value
			}
		}
		if o.Servers == nil {
			o.Servers = map[string]any{}
		}
		o.Servers[name] = kept
	}
}

// Started is the program that an MCP server is started with; "" is none.
func Started(server any) string {
	table, _ := server.(map[string]any)
	switch command := table["command"].(type) {
	case string:
		return command
	case []any: // opencode's, with the arguments
		if len(command) > 0 {
			program, _ := command[0].(string)
			return program
		}
	}
	return ""
}

// valueAt is what a table has at "a.b".
func valueAt(table map[string]any, key string) (any, bool) {
	first, rest, more := strings.Cut(key, ".")
	value, ok := table[first]
	if !more || !ok {
		return value, ok
	}
	inner, _ := value.(map[string]any)
	return valueAt(inner, rest)
}

func setAt(table map[string]any, key string, value any) {
	first, rest, more := strings.Cut(key, ".")
	if !more {
		table[first] = value
		return
	}
	inner, ok := table[first].(map[string]any)
	if !ok {
		inner = map[string]any{}
		table[first] = inner
	}
	setAt(inner, rest, value)
}
