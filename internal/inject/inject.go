// Package inject decides what an agent finds inside its sandbox in place of
// what it has on the host: placeholders in its environment, the address of the
// gateway, git's configuration, wrappers. It reads nothing of a secret but what is none.
package inject

import (
	"bytes"
	"maps"
	"slices"

	"forage"
)

// Contribution is what is to be added to a sandbox's Spec. Contributions are
// merged purely; two that disagree are an error.
type Contribution struct {
	From  string // who asks for it, for errors
	Env   map[string]string
	Files []forage.File
	// Path are folders to look for commands in before all others.
	Path []string
	// Git is a part of the sandbox's system-wide git configuration (git-config(1)).
	Git string
}

// Merge makes one contribution of several, in their order. It is ErrUsage when two set a variable,
// or make a file, in different ways.
func Merge(list ...Contribution) (Contribution, error) {
	all := Contribution{Env: make(map[string]string)}
	asked := make(map[string]string) // who asked for a variable or a file
	for _, c := range list {
		for _, name := range slices.Sorted(maps.Keys(c.Env)) {
			value, ok := all.Env[name]
			if !ok {
				all.Env[name], asked["$"+name] = c.Env[name], c.From
			} else if value != c.Env[name] {
				return Contribution{}, conflict("the variable "+name, asked["$"+name], c.From)
			}
		}
		for _, file := range c.Files {
			at := slices.IndexFunc(all.Files, func(other forage.File) bool { return other.Path == file.Path })
			if at < 0 {
				all.Files, asked[file.Path] = append(all.Files, file), c.From
				continue
			}
			if have := all.Files[at]; !bytes.Equal(have.Content, file.Content) || have.Mode != file.Mode || have.Owned != file.Owned || have.Renew != file.Renew {
				return Contribution{}, conflict("the file "+file.Path, asked[file.Path], c.From)
			}
		}
		for _, dir := range c.Path {
			if !slices.Contains(all.Path, dir) {
				all.Path = append(all.Path, dir)
			}
		}
		all.Git += c.Git
	}
	return all, nil
}

func conflict(what, one, other string) error {
	return forage.WithHint(
		forage.Errorf(forage.ErrUsage, "%s is set by both %s and %s", what, one, other),
		"leave one of the two out of the template")
}
