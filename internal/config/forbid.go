package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"forage"
)

// forbiddableFlags is what [forbid] flags may name: no other flag loosens anything.
var forbiddableFlags = [...]string{"allow", "branch", "clone", "env", "git-worktree", "image", "mount", "network", "repo", "runtime", "ssh-key", "template", "volume"}

// Forbid is what the system's, the user's and a project's files forbid. The
// zero value forbids nothing. Its checks read nothing from the system, and
// return an ErrDenied that names the file.
type Forbid struct {
	homes []string // what ~ stands for: as given and with links resolved
	all   []forbidden
}

// forbidden is one thing that a file forbids.
type forbidden struct {
	key  string // mounts, flags, networks or runtimes
	what string // as written
	also string // mounts: what, with links on the way resolved; "" if it is the same
	file string
	line int
}

// newForbid is a Forbid that knows what ~ is.
func newForbid(home string) Forbid {
	var f Forbid
	if filepath.IsAbs(home) {
		f.homes = []string{filepath.Clean(home)}
		if real, err := filepath.EvalSymlinks(home); err == nil && real != f.homes[0] {
			f.homes = append(f.homes, real)
		}
	}
	return f
}

// And forbids what either forbids; ~ is what it is for f, if f knows.
func (f Forbid) And(other Forbid) Forbid {
	homes := f.homes
	if homes == nil {
		homes = other.homes
	}
	return Forbid{homes, slices.Concat(f.all, other.all)}
}

// forbidOf is what one file forbids.
func forbidOf(raw rawForbid, said document, home string) Forbid {
	f := newForbid(home)
	for key, items := range map[string][]string{"mounts": raw.Mounts, "flags": raw.Flags, "networks": raw.Networks, "runtimes": raw.Runtimes} {
		for i, what := range items {
			at := said.place(item("forbid."+key, i))
			one := forbidden{key: key, what: what, file: at.file.path, line: at.line()}
			if key == "mounts" {
				one.also = resolvePattern(what)
			}
			f.all = append(f.all, one)
		}
	}
	return f
}

// written are the lists as a file has them.
func (f Forbid) written() map[string]any {
	lists := map[string]any{}
	for _, key := range []string{"mounts", "flags", "networks", "runtimes"} {
		list := []any{}
		for _, one := range f.all {
			if one.key == key {
				list = append(list, one.what)
			}
		}
		lists[key] = list
	}
	return lists
}

// MonitorNetwork stands, among the forbidden network modes, for a network of any
// mode that lets through and records what it would deny.
const MonitorNetwork forage.NetworkMode = "monitor"

// maxAnywhere bounds how many ** a pattern has: matching tries every way to
// place them, and a project's file is hostile.
const maxAnywhere = 3

func checkPattern(pattern string) error {
	if !strings.HasPrefix(pattern, "/") && pattern != "~" && !strings.HasPrefix(pattern, "~/") && !strings.HasPrefix(pattern, "**/") {
		return fmt.Errorf("%.80q: expected a pattern that begins with /, ~/ or **/", pattern)
	}
	if strings.Count(pattern, "**") > maxAnywhere {
		return fmt.Errorf("%.80q: ** more than %d times", pattern, maxAnywhere)
	}
	for _, part := range split(pattern) {
		if _, err := filepath.Match(part, ""); err != nil || part == ".." || part == "." {
			return fmt.Errorf("%.80q is not a pattern of paths", pattern)
		}
	}
	return nil
}

// resolvePattern resolves links in the part of an absolute pattern in front of
// its first wildcard, since what is mounted has its links resolved too. It is "" if
// that changes nothing.
func resolvePattern(pattern string) string {
	if !strings.HasPrefix(pattern, "/") {
		return ""
	}
	parts := split(pattern)
	plain := 0
	for plain < len(parts) && !strings.ContainsAny(parts[plain], `*?[\`) {
		plain++
	}
	at, there := "/", 0 // one after the other: a project's file may name any number of links
	for ; there < plain; there++ {
		real, err := filepath.EvalSymlinks(filepath.Join(at, parts[there]))
		if err != nil {
			break
		}
		at = real
	}
	resolved := filepath.Join(quotePattern(at), strings.Join(parts[there:], "/"))
	if resolved == filepath.Clean(pattern) {
		return ""
	}
	return resolved
}

func split(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// CheckMount denies showing the host path source (absolute, clean, links
// resolved) when it is forbidden, is inside something forbidden, or holds
// something forbidden.
func (f Forbid) CheckMount(source string) error {
	path := split(filepath.Clean(source))
	for _, m := range f.all {
		for _, pattern := range f.spellings(m) {
			if m.key == "mounts" && touches(split(pattern), path) {
				return denied(m, "showing %s inside", source)
			}
		}
	}
	return nil
}

// spellings are the absolute patterns that m stands for.
func (f Forbid) spellings(m forbidden) []string {
	rest, ok := strings.CutPrefix(m.what, "~")
	if !ok {
		if m.also != "" {
			return []string{m.what, m.also}
		}
		return []string{m.what}
	}
	var patterns []string
	for _, home := range f.homes {
		patterns = append(patterns, quotePattern(home)+rest)
	}
	return patterns
}

// quotePattern makes a path a pattern that matches it alone.
func quotePattern(path string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(path)
}

// touches says whether a folder or file at path is matched by pattern, is
// below what it matches, or, as far as the pattern can tell (up to its first
// **), holds it.
func touches(pattern, path []string) bool {
	if len(pattern) == 0 {
		return true // all that is left is below what matched
	}
	if len(path) == 0 {
		return true // it holds what the rest of the pattern matches
	}
	if pattern[0] == "**" {
		if len(pattern) == 1 {
			return true
		}
		for i := range path {
			if touches(pattern[1:], path[i:]) {
				return true
			}
		}
		return false
	}
	ok, err := filepath.Match(pattern[0], path[0])
	return ok && err == nil && touches(pattern[1:], path[1:])
}

// CheckFlag denies the use of a flag, named without dashes.
func (f Forbid) CheckFlag(name string) error { return f.check("flags", name, "the flag --%s") }

// CheckNetwork denies a network mode.
func (f Forbid) CheckNetwork(mode forage.NetworkMode) error {
	return f.check("networks", string(mode), "the network mode %s")
}

// CheckRuntime denies a runtime, with whatever program it is named (oci:PROGRAM).
func (f Forbid) CheckRuntime(name string) error {
	name, _, _ = strings.Cut(name, ":")
	return f.check("runtimes", name, "the runtime %s")
}

func (f Forbid) check(key, what, format string) error {
	for _, one := range f.all {
		if one.key == key && one.what == what {
			return denied(one, format, what)
		}
	}
	return nil
}

func denied(entry forbidden, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	return forage.Errorf(forage.ErrDenied, "%s is forbidden by %s:%d", what, entry.file, entry.line)
}
