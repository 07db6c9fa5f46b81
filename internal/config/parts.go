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

// parts are the parts of a template's workspace, by name. What can't be true together is wrong
// where the second of the two is written.
func (v converter) parts(raw map[string]rawWorkspaceMount, at string) []forage.Part {
	var parts []forage.Part
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if raw[name].ContainerPath == "" || raw[name].Repo == "" {
			v.wrong(join(at, name), "expected containerPath and repo")
			continue
		}
		parts = append(parts, v.part(name, raw[name], join(at, name)))
	}
	written := slices.Clone(parts)
	slices.SortStableFunc(written, func(a, b forage.Part) int {
		return cmp.Compare(v.place(join(at, a.Name)).offset, v.place(join(at, b.Name)).offset)
	})
	for i, part := range written {
		for _, other := range written[:i] {
			// Finds what two parts can't both have. Parts may be in the workspace, and not
			// otherwise in one another.
			at := join(at, part.Name)
			a, b := part.ContainerPath, other.ContainerPath
			switch {
			case a == b:
				v.wrong(at+".containerPath", "%.80q: the part %s is there already", a, other.Name)
			case a != forage.WorkspacePath && under(b, a), b != forage.WorkspacePath && under(a, b):
				v.wrong(at+".containerPath", "%.80q overlaps with the part %s, at %.80q", a, other.Name, b)
			}
			direct := part.Mode == forage.WorkspaceDirect && other.Mode == forage.WorkspaceDirect
			if direct && !(part.ReadOnly && other.ReadOnly) && (part.Repo == other.Repo || under(part.Repo, other.Repo) || under(other.Repo, part.Repo)) {
				v.wrong(at+".repo", "%.80q: the part %s shows the same files, and one of the two can change them: make both readOnly, or one a git-worktree", part.Repo, other.Name)
			}
		}
	}
	return parts
}

func (v converter) part(name string, raw rawWorkspaceMount, at string) forage.Part {
	part := forage.Part{
		Name: name, Repo: raw.Repo, Mode: cmp.Or(forage.WorkspaceMode(raw.Mode), forage.WorkspaceDirect), Branch: raw.Branch,
	}
	path, readOnly := strings.CutSuffix(raw.ContainerPath, ":ro") // as in --mount
	part.ContainerPath, part.ReadOnly = path, readOnly || raw.ReadOnly
	if err := checkPlace(path); err != nil {
		v.wrong(at+".containerPath", "%.80q: %v", path, err)
	}
	if name == mainPart && path != forage.WorkspacePath {
		v.wrong(at+".containerPath", "%.80q: the part called main is the one at %s: give this one another name", path, forage.WorkspacePath)
	}
	if part.Branch != "" && part.Mode == forage.WorkspaceDirect {
		v.wrong(at+".branch", "%.80q: a direct part has the branch that is checked out: leave it out, or choose another mode", part.Branch)
	}
	if forage.IsURL(part.Repo) && part.Mode != forage.WorkspaceClone {
		v.wrong(at+".repo", "%.80q: expected a folder, or mode = %q for a URL", part.Repo, forage.WorkspaceClone)
	}
	return part
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

// under says whether path is somewhere below dir.
func under(path, dir string) bool {
	rest, err := filepath.Rel(dir, path)
	return err == nil && rest != "." && rest != ".." && !strings.HasPrefix(rest, "../")
}
