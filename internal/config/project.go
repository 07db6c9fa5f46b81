package config

import (
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"forage"
)

// ProjectFile is the name of a project's own file, at the top of its workspace.
const ProjectFile = ".forage.toml"

// maxProject bounds a project's file, in bytes.
const maxProject = 64 << 10

// Project is what a project's file asks for. The file is written by whoever
// wrote the project, the agent included: it can only take away. The zero value takes nothing.
type Project struct {
	Forbid Forbid // the modes that its network setting excludes included

	file         string
	network      *forage.NetworkMode
	allow        []string // nil: not said
	readOnly     bool
	noHome       bool // home = "ephemeral"
	protect      bool
	limits       forage.Limits
	rules        []forage.Rule // that deny
	traffic      forage.Traffic
	networkAt    position
	allowTableAt position
	allowAt      []position
	limitsAt     *node
	trafficAt    *node
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
		return Project{}, forage.Errorf(forage.ErrUsage, "reading the project's file: %s is a link, which is not followed", path)
	case err != nil:
		return Project{}, forage.Errorf(forage.ErrUsage, "reading the project's file: %w", namePath(path, err))
	}
	var p problems
	root := parseTOML(path, data, &p)
	if root == nil {
		return Project{}, p.err()
	}
	if err := checkProjectKeys(root); err != nil {
		return Project{}, err
	}
	var raw rawProject
	bind(root, &raw, &p)
	if err := p.err(); err != nil {
		return Project{}, err
	}
	project := convertProject(path, raw, root, &p)
	if err := p.err(); err != nil {
		return Project{}, err
	}
	for i, rule := range project.rules {
		if !rule.Deny {
			return Project{}, project.denied(root.at("rules", i).pos, "rules[%d]: a project's rules can only deny: expected deny = true", i)
		}
	}
	return project, nil
}

func namePath(path string, err error) error {
	var located *fs.PathError
	if errors.As(err, &located) {
		return err
	}
	return forage.Errorf(nil, "%s: %w", path, err)
}

// checkProjectKeys denies keys that exist and are not for a project to set.
// Keys that don't exist are left to bind.
func checkProjectKeys(root *node) error {
	allowed := keysOf(rawProject{})
	for _, key := range root.keys {
		if allowed[key] || !(keysOf(rawTemplate{})[key] || keysOf(rawFile{})[key] || key == "template") {
			continue
		}
		at := root.fields[key].key
		return forage.WithHint(
			forage.Errorf(forage.ErrDenied, "%s:%d: a project's file can't set %s, it can only tighten what your template allows", at.file, at.line, key),
			"put it into your own configuration file")
	}
	return nil
}

func convertProject(path string, raw rawProject, root *node, p *problems) Project {
	v := converter{problems: p, root: root}
	project := Project{file: path, readOnly: isTrue(raw.ReadOnlyWorkspace), protect: isTrue(raw.Protect), limitsAt: root.at("resourceLimits"), trafficAt: root.at("traffic")}
	if raw.Forbid != nil {
		project.Forbid = convertForbid(raw.Forbid, root.at("forbid"), "", p)
	}
	if raw.Home != nil {
		project.noHome = *raw.Home == ephemeralHome
		v.check(checkHome(*raw.Home), "home")
	}
	if raw.Network != nil {
		mode, err := checkMode(*raw.Network)
		v.check(err, "network")
		project.network, project.networkAt = &mode, root.at("network").key
		// A flag can't go beyond it either.
		for _, wider := range [...]forage.NetworkMode{forage.NetworkRestricted, forage.NetworkFull} {
			if width(wider) > width(mode) {
				project.Forbid.networks = append(project.Forbid.networks, forbidden{what: string(wider), at: project.networkAt})
			}
		}
	}
	if raw.AllowedHosts != nil {
		project.allow, project.allowTableAt = append([]string{}, raw.AllowedHosts...), root.at("allowedHosts").key
		v.each(raw.AllowedHosts, checkHost, []any{"allowedHosts"})
		for i := range raw.AllowedHosts {
			project.allowAt = append(project.allowAt, root.at("allowedHosts", i).pos)
		}
	}
	v.limits(&project.limits, raw.ResourceLimits, []any{"resourceLimits"})
	project.rules = v.projectRules(raw.Rules)
	v.traffic(&project.traffic, raw.Traffic, []any{"traffic"})
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
