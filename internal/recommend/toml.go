package recommend

import (
	"encoding/json"
	"fmt"
	"strings"

	"forage"
)

// TOML writes the recommendation as a part of a configuration, for the template of
// that name. about says in a line where it comes from.
func (s Recommendation) TOML(template, about string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", comment(about))
	for _, note := range []struct {
		list []string
		text string
	}{
		{s.LookedUp, "only looked up, and not connected to"},
		{s.Pushed, "pushed to with git; say which branches may be with git = { push = [...] }"},
		{s.Wide, "allowed as a whole: the requests were too many, or too odd, to tell apart"},
	} {
		for i, name := range note.list {
			if i == maxNotes {
				fmt.Fprintf(&b, "# and %d more\n", len(note.list)-maxNotes)
				break
			}
			fmt.Fprintf(&b, "# %s: %s\n", comment(name), note.text)
		}
	}
	fmt.Fprintf(&b, "[templates.%s]\nnetwork = \"restricted\"\nallowedHosts = %s\n", key(template), stringList(s.Allow))
	for _, r := range s.Rules {
		b.WriteString("\n" + RuleTOML(template, r))
	}
	return b.String()
}

// RuleTOML writes one rule as a part of a configuration, for the template of that name.
func RuleTOML(template string, r forage.Rule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[[templates.%s.rules]]\nhost = %s\n", key(template), quoted(r.Host))
	if len(r.Methods) > 0 {
		fmt.Fprintf(&b, "methods = %s\n", stringList(r.Methods))
	}
	if len(r.Paths) > 0 {
		fmt.Fprintf(&b, "paths = %s\n", stringList(r.Paths))
	}
	if r.Git != nil {
		fmt.Fprintf(&b, "git = { repos = [%s]", quotedAll(r.Git.Repos, ", "))
		if len(r.Git.Push) > 0 {
			fmt.Fprintf(&b, ", push = [%s]", quotedAll(r.Git.Push, ", "))
		}
		b.WriteString(" }\n")
	}
	if r.Deny {
		b.WriteString("deny = true\n")
	}
	return b.String()
}

// maxNotes bounds the comments about one thing.
const maxNotes = 20

// key is a bare key, or a quoted one.
func key(name string) string {
	const bare = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	if name != "" && strings.Trim(name, bare) == "" {
		return name
	}
	return quoted(name)
}

// stringList is an array, with each of several elements in a line of its own.
func stringList(list []string) string {
	if len(list) < 2 {
		return "[" + quotedAll(list, ", ") + "]"
	}
	return "[\n  " + quotedAll(list, ",\n  ") + ",\n]"
}

func quotedAll(list []string, between string) string {
	all := make([]string, len(list))
	for i, text := range list {
		all[i] = quoted(text)
	}
	return strings.Join(all, between)
}

// quoted is a basic string of TOML: all that isn't printable ASCII is escaped.
func quoted(text string) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string has no error
	var out strings.Builder
	for _, r := range strings.TrimSuffix(b.String(), "\n") {
		switch {
		case r >= 0x20 && r < 0x7f:
			out.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&out, `\U%08x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// comment is text that ends no line and drives no terminal.
func comment(text string) string {
	q := quoted(text)
	return q[1 : len(q)-1]
}
