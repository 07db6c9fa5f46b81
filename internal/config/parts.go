package config

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"forage"
)

// mainPart is the name of the part at forage.WorkspacePath, which no other may have.
const mainPart = "main"

// partModes are the modes that a part of a workspace may be asked for in.
var partModes = [...]string{
	string(forage.WorkspaceDirect), string(forage.WorkspaceWorktree), string(forage.WorkspaceJJ), string(forage.WorkspaceClone),
}

// parts are the parts of a template's workspace, by name. What can't be true together is wrong where
// the second of the two is written.
func (v converter) parts(raw *rawWorkspace, at []any) []forage.Part {
	if raw == nil {
		return nil
	}
	var parts []forage.Part
	for _, name := range slices.Sorted(maps.Keys(raw.Mounts)) {
		key := append(slices.Clone(at), "mounts", name)
		part, ok := v.part(name, raw.Mounts[name], key)
		if !ok {
			continue
		}
		parts = append(parts, part)
	}
	// As they are written, so that the later one is at fault.
	written := slices.Clone(parts)
	slices.SortStableFunc(written, func(a, b forage.Part) int {
		return cmp.Compare(v.root.at(append(slices.Clone(at), "mounts", a.Name)...).key.line, v.root.at(append(slices.Clone(at), "mounts", b.Name)...).key.line)
	})
	for i, part := range written {
		for _, other := range written[:i] {
			v.apart(part, other, append(slices.Clone(at), "mounts", part.Name))
		}
	}
	return parts
}

// part is one part of a workspace.
func (v converter) part(name string, raw rawWorkspaceMount, at []any) (forage.Part, bool) {
	key := func(k string) []any { return append(slices.Clone(at), k) }
	if raw.ContainerPath == nil || raw.Repo == nil {
		v.wrong(at, "expected containerPath and repo")
		return forage.Part{}, false
	}
	part := forage.Part{Name: name, ContainerPath: *raw.ContainerPath, Mode: forage.WorkspaceDirect, ReadOnly: isTrue(raw.ReadOnly)}
	if path, ok := strings.CutSuffix(part.ContainerPath, ":ro"); ok { // as in --mount
		part.ContainerPath, part.ReadOnly = path, true
	}
	setText(&part.Branch, raw.Branch)
	if raw.Mode != nil {
		part.Mode = forage.WorkspaceMode(*raw.Mode)
	}
	good := true
	bad := func(path []any, format string, args ...any) {
		v.wrong(path, format, args...)
		good = false
	}
	if forage.CheckName(name) != nil {
		bad(at, "expected a name of 1 to 63 of a-z, 0-9 and -")
	}
	if !slices.Contains(partModes[:], string(part.Mode)) {
		bad(key("mode"), "%.80q: expected %s", *raw.Mode, strings.Join(partModes[:], ", "))
	}
	if err := checkPlace(part.ContainerPath); err != nil {
		bad(key("containerPath"), "%.80q: %v", part.ContainerPath, err)
	}
	if name == mainPart && part.ContainerPath != forage.WorkspacePath {
		bad(key("containerPath"), "%.80q: the part called main is the one at %s: give this one another name", part.ContainerPath, forage.WorkspacePath)
	}
	if raw.Branch != nil && (part.Branch == "" || part.Mode == forage.WorkspaceDirect) {
		bad(key("branch"), "%.80q: a direct part has the branch that is checked out: leave it out, or choose another mode", part.Branch)
	}
	if part.Mode == forage.WorkspaceClone && forage.IsURL(*raw.Repo) {
		part.Repo = *raw.Repo
	} else {
		part.Repo = v.path(*raw.Repo, key("repo")...)
	}
	return part, good
}

// checkPlace says what is wrong with a place inside for a part of a workspace.
func checkPlace(place string) error {
	if place == forage.WorkspacePath {
		return nil
	}
	if err := forage.CheckTarget(place); err != nil {
		return err
	}
	for name := range strings.SplitSeq(place, "/") {
		if name == ".git" || name == ".jj" {
			return forage.Errorf(nil, "%s is the repository's own", name)
		}
	}
	return nil
}

// apart finds what two parts can't both have. Parts may be in the workspace, and not otherwise in one another.
func (v converter) apart(part, other forage.Part, at []any) {
	a, b := part.ContainerPath, other.ContainerPath
	switch {
	case a == b:
		v.wrong(append(slices.Clone(at), "containerPath"), "%.80q: the part %s is there already", a, other.Name)
	case a != forage.WorkspacePath && under(b, a), b != forage.WorkspacePath && under(a, b):
		v.wrong(append(slices.Clone(at), "containerPath"), "%.80q overlaps with the part %s, at %.80q", a, other.Name, b)
	}
	direct := part.Mode == forage.WorkspaceDirect && other.Mode == forage.WorkspaceDirect
	if direct && !(part.ReadOnly && other.ReadOnly) && (part.Repo == other.Repo || under(part.Repo, other.Repo) || under(other.Repo, part.Repo)) {
		v.wrong(append(slices.Clone(at), "repo"), "%.80q: the part %s shows the same files, and one of the two can change them: make both readOnly, or one a git-worktree", part.Repo, other.Name)
	}
}

// under says whether path is somewhere below dir.
func under(path, dir string) bool {
	rest, err := filepath.Rel(dir, path)
	return err == nil && rest != "." && rest != ".." && !strings.HasPrefix(rest, "../")
}
