package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"forage"
)

// tomlFile is a settings file of TOML (1.0), which is written here: a library's encoder would be
// one more thing that every start of the program loads.
func tomlFile(name string, content map[string]any) forage.File {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(content)) {
		fmt.Fprintf(&b, "%s = %s\n", quote(key), tomlValue(content[key]))
	}
	return forage.File{Path: name, Content: []byte(b.String())}
}

// tomlValue writes a value on one line, tables as inline ones.
func tomlValue(value any) string {
	switch value := value.(type) {
	case string:
		return quote(value)
	case []any:
		items := make([]string, len(value))
		for i, item := range value {
			items[i] = tomlValue(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		var items []string
		for _, key := range slices.Sorted(maps.Keys(value)) {
			items = append(items, quote(key)+" = "+tomlValue(value[key]))
		}
		return "{" + strings.Join(items, ", ") + "}"
	}
	return fmt.Sprint(value) // numbers and truths
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
