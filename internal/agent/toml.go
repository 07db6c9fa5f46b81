package agent

import (
	"encoding/json"

	"strings"

	"github.com/pelletier/go-toml/v2"

	"forage"
)

// tomlFile is a settings file of TOML.
func tomlFile(name string, content map[string]any) forage.File {
	text, err := toml.Marshal(content)
	if err != nil {
		panic(err) // strings, numbers, truths, and lists and maps of them always marshal
	}
	return forage.File{Path: name, Content: text}
}

// quote writes a string as TOML's basic string, which Starlark reads too. JSON has the same
// escapes, and leaves DEL as it is.
func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // strings always marshal
	}
	return strings.ReplaceAll(string(quoted), "\x7f", `\u007f`)
}
