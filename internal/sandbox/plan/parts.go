package plan

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"forage"
	"forage/internal/rootfs"
)

// ComposedMounts are the mounts of all parts of a workspace, sorted so that a mount comes before
// those inside of it. It refuses a place that two parts want, and a place in another part where
// nothing can be mounted.
func composedMounts(parts []forage.Workspace) ([]forage.Mount, error) {
	var mounts []forage.Mount
	owner := make(map[string]string) // of a target
	for _, w := range parts {
		own := append([]forage.Mount{{Source: w.Path, Target: w.Target, Writable: !w.ReadOnly}}, Metadata(w)...)
		for _, mount := range own {
			if other, taken := owner[mount.Target]; taken {
				return nil, forage.Errorf(forage.ErrUsage, "the workspace's parts %s and %s are both at %s", min(other, w.Name), max(other, w.Name), mount.Target)
			}
			owner[mount.Target] = w.Name
		}
		mounts = append(mounts, own...)
	}
	slices.SortFunc(mounts, func(a, b forage.Mount) int { // a folder comes before what is in it
		return cmp.Or(cmp.Compare(strings.Count(a.Target, "/"), strings.Count(b.Target, "/")), strings.Compare(a.Target, b.Target))
	})
	return mounts, errors.Join(apartOnHost(parts), roomForParts(parts))
}

func Metadata(w forage.Workspace) []forage.Mount {
	if w.Repository == nil {
		return nil
	}
	return w.Repository.Mounts
}

// apartOnHost refuses parts that could write to the same files of the host, or come to one branch.
func apartOnHost(parts []forage.Workspace) error {
	for i, a := range parts {
		for _, b := range parts[:i] {
			if (!a.ReadOnly || !b.ReadOnly) && (rootfs.Within(a.Path, b.Path) || rootfs.Within(b.Path, a.Path)) {
				return forage.WithHint(
					forage.Errorf(forage.ErrUsage, "the workspace's parts %s and %s show the same files, %s and %s, and one of them can change them", b.Name, a.Name, b.Path, a.Path),
					"make both readOnly, or one of them a git-worktree")
			}
			if a.Branch != "" && a.Branch == b.Branch && a.Repository != nil && b.Repository != nil && a.Repository.Store == b.Repository.Store {
				return forage.Errorf(forage.ErrUsage, "the workspace's parts %s and %s would both bring their commits to %s of %s", b.Name, a.Name, a.Branch, a.Repository.Store)
			}
		}
	}
	return nil
}

// roomForParts refuses a part that is to be mounted in another one where the user's own folder
// has no place for it: nothing is made there.
func roomForParts(parts []forage.Workspace) error {
	for _, w := range parts {
		outer, ok := Holds(parts, w.Target)
		if !ok || outer.Mode != forage.WorkspaceDirect { // in a tree of ours, the place is made: see makeRoom
			continue
		}
		place := filepath.Join(outer.Path, strings.TrimPrefix(w.Target, outer.Target))
		if err := PlainFolder(outer.Path, place); err != nil {
			return forage.WithHint(
				forage.Errorf(forage.ErrUsage, "the workspace's part %s belongs at %s, where %s has no folder: %w", w.Name, w.Target, outer.Path, err),
				"make one: mkdir -p "+place)
		}
	}
	return nil
}

// holds is the innermost part that the place target is in.
func Holds(parts []forage.Workspace, target string) (outer forage.Workspace, ok bool) {
	for _, w := range parts {
		if Below(target, w.Target) && len(w.Target) > len(outer.Target) {
			outer, ok = w, true
		}
	}
	return outer, ok
}

// plainFolder is an error unless place, below root, is a folder that no link leads to, so that a
// folder can be mounted on it.
func PlainFolder(root, place string) error {
	for path := root; path != place; {
		rest := strings.TrimPrefix(place, path+"/")
		name, _, _ := strings.Cut(rest, "/")
		path = filepath.Join(path, name)
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return forage.Errorf(nil, "%s is a link", path)
		}
		if !info.IsDir() {
			return forage.Errorf(nil, "%s is not a folder", path)
		}
	}
	return nil
}
