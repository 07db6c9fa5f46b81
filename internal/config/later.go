package config

import (
	"errors"
	"fmt"
	"slices"
)

// unsupported lists the keys of a template that are known and that this
// version can't enforce, in the order of the reference.
func (v converter) unsupported(raw rawTemplate, at func(...any) []any) []KeyUse {
	var uses []KeyUse
	use := func(is bool, path ...any) {
		if is {
			n := v.root.at(at(path...)...)
			uses = append(uses, KeyUse{pathText(at(path...)), n.key.file, n.key.line})
		}
	}
	names := make([]string, 0, len(raw.Agents))
	for name := range raw.Agents {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		agent := raw.Agents[name]
		use(isText(agent.Package), "agents", name, "package")
	}
	return uses
}

func isTrue(b *bool) bool   { return b != nil && *b }
func isText(s *string) bool { return s != nil && *s != "" }

// quoted puts the value that is wrong in front of what was expected.
func quoted(text string, err error) error {
	if err == nil {
		return nil
	}
	return errors.New(fmt.Sprintf("%.80q: ", text) + err.Error())
}
