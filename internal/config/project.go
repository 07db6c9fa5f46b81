package config

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/policy"
)

// ProjectFile is the name of a project's own file, at the top of its workspace.
const ProjectFile = ".forage.toml"

// maxProject bounds a project's file, in bytes.
const maxProject = 64 << 10

// Project is what a project's file asks for. The file is written by the one who
// wrote the project, the agent included: it can only take away. The zero value takes nothing.
type Project struct {
	Forbid Forbid // the modes that its network setting excludes included

	said     document
	network  *forage.NetworkMode
	allow    []string // nil: not said
	readOnly bool
	noHome   bool // home = "ephemeral"
	protect  bool
	limits   forage.Limits
	rules    []forage.Rule // that deny
	traffic  forage.Traffic
}

// LoadProject reads the project's file of a workspace, which need not be
// there. It follows no link and reads nothing but a regular file. What is wrong with it is an
// *Error; asking for something that only the user's own files can give is ErrDenied.
func LoadProject(workspace string) (Project, error) {
	path := filepath.Join(workspace, ProjectFile)
	data, err := readBounded(path, maxProject, unix.O_NOFOLLOW)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Project{}, nil
	case errors.Is(err, unix.ELOOP):
		return Project{}, unreadable(path, errors.New("it is a link, which is not followed"))
	case err != nil:
		return Project{}, unreadable(path, err)
	}
	var p problems
	said, ok := read(file{path, data}, &p)
	if !ok {
		return Project{}, p.err()
	}
	// Denies keys that exist and are not for a project to set. Keys that don't exist are left to
	// the binder.
	allowed, elsewhere := keysOf[rawProject](), append(slices.Concat(keysOf[rawTemplate](), keysOf[rawFile]()), "template")
	for _, key := range slices.Sorted(maps.Keys(said.values)) {
		if slices.Contains(allowed, key) || !slices.Contains(elsewhere, key) {
			continue
		}
		at := said.place(join("", key))
		return Project{}, forage.WithHint(
			forage.Errorf(forage.ErrDenied, "%s:%d: a project's file can't set %s, it can only tighten what your template allows", at.file.path, at.line(), key),
			"put it into your own configuration file")
	}

	var raw rawProject
	binder{document: said, problems: &p}.bind(&raw)
	if err := p.err(); err != nil {
		return Project{}, err
	}
	project := convertProject(raw, said, &p)
	if err := p.err(); err != nil {
		return Project{}, err
	}
	for i, rule := range project.rules {
		if !rule.Deny {
			return Project{}, project.denied(item("rules", i), "rules[%d]: a project's rules can only deny: expected deny = true", i)
		}
	}
	return project, nil
}

// keysOf are the keys of a raw struct.
func keysOf[raw any]() []string {
	var keys []string
	for field := range reflect.TypeFor[raw]().Fields() {
		keys = append(keys, keyOf(field))
	}
	return keys
}

// maxProjectRules bounds the rules of a project's file, each path counted: they
// are asked about every request.
const maxProjectRules = 200

func convertProject(raw rawProject, said document, p *problems) Project {
	v := converter{document: said, problems: p}
	project := Project{
		Forbid: forbidOf(raw.Forbid, said, ""), said: said, allow: raw.AllowedHosts, readOnly: raw.ReadOnlyWorkspace,
		noHome: raw.Home == ephemeralHome, protect: raw.Protect, limits: limitsOf(raw.ResourceLimits), traffic: trafficOf(raw.Traffic),
	}
	if raw.Network != "" {
		mode, at := forage.NetworkMode(raw.Network), said.place("network")
		project.network = &mode
		// A flag can't go beyond it either.
		for _, wider := range [...]forage.NetworkMode{forage.NetworkRestricted, forage.NetworkFull} {
			if width(wider) > width(mode) {
				project.Forbid.all = append(project.Forbid.all, forbidden{key: "networks", what: string(wider), file: at.file.path, line: at.line()})
			}
		}
	}
	count := 0
	for i, r := range raw.Rules {
		if policy.IsSet(r.Host) { // to ask the user's tools is not for a project
			v.wrong(item("rules", i)+".host", "%.80q: expected a host: a project's rules can't name a set", r.Host)
		}
		if count += max(1, len(r.Paths)); count > maxProjectRules {
			v.wrong(item("rules", i), "more than %d rules and paths", maxProjectRules)
			return project
		}
	}
	project.rules = v.rules(raw.Rules, "rules")
	return project
}

// width orders the network modes.
func width(mode forage.NetworkMode) int {
	switch mode {
	case forage.NetworkFull:
		return 2
	case forage.NetworkRestricted:
		return 1
	}
	return 0
}
