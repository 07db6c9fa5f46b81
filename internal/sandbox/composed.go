package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"forage"
	"forage/internal/rootfs"
)

// composedMounts are the mounts of all parts of a workspace, sorted so that a mount comes before
// those inside of it. It refuses a place that two parts want, and a place in another part where
// nothing can be mounted.
func composedMounts(parts []forage.Workspace) ([]forage.Mount, error) {
	var mounts []forage.Mount
	owner := make(map[string]string) // of a target
	for _, w := range parts {
		own := append([]forage.Mount{{Source: w.Path, Target: w.Target, Writable: !w.ReadOnly}}, metadata(w)...)
		for _, mount := range own {
			if other, taken := owner[mount.Target]; taken {
				return nil, forage.Errorf(forage.ErrUsage, "the workspace's parts %s and %s are both at %s", min(other, w.Name), max(other, w.Name), mount.Target)
			}
			owner[mount.Target] = w.Name
		}
		mounts = append(mounts, own...)
	}
	slices.SortFunc(mounts, func(a, b forage.Mount) int { return compareTargets(a.Target, b.Target) })
	return mounts, errors.Join(apartOnHost(parts), roomForParts(parts))
}

func metadata(w forage.Workspace) []forage.Mount {
	if w.Repository == nil {
		return nil
	}
	return w.Repository.Mounts
}

// compareTargets orders paths so that a folder comes before what is in it.
func compareTargets(a, b string) int {
	return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), strings.Compare(a, b))
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
		outer, ok := holds(parts, w.Target)
		if !ok || outer.Mode != forage.WorkspaceDirect { // in a tree of ours, the place is made: see makeRoom
			continue
		}
		place := filepath.Join(outer.Path, strings.TrimPrefix(w.Target, outer.Target))
		if err := plainFolder(outer.Path, place); err != nil {
			return forage.WithHint(
				forage.Errorf(forage.ErrUsage, "the workspace's part %s belongs at %s, where %s has no folder: %w", w.Name, w.Target, outer.Path, err),
				"make one: mkdir -p "+place)
		}
	}
	return nil
}

// holds is the innermost part that the place target is in.
func holds(parts []forage.Workspace, target string) (outer forage.Workspace, ok bool) {
	for _, w := range parts {
		if below(target, w.Target) && len(w.Target) > len(outer.Target) {
			outer, ok = w, true
		}
	}
	return outer, ok
}

// plainFolder is an error unless place, below root, is a folder that no link leads to, so that a
// folder can be mounted on it.
func plainFolder(root, place string) error {
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

// makeRoom makes, in the trees that Forage made, the folders that other parts and the user's own
// mounts are mounted on. Nothing of the sandbox may run. What is inside is hostile: no link is
// followed.
func makeRoom(plan forage.Plan) error {
	parts := plan.Workspaces()
	for _, mount := range plan.Spec.Mounts {
		outer, ok := holds(parts, mount.Target)
		if !ok || outer.Mode == forage.WorkspaceDirect || slices.Contains(metadata(outer), mount) {
			continue
		}
		if info, err := os.Stat(mount.Source); err != nil || !info.IsDir() {
			continue // a place for a file is not ours to make: it would be a file of the tree
		}
		place := strings.TrimPrefix(mount.Target, outer.Target+"/")
		if err := makeFolder(outer.Path, place); err != nil {
			return forage.WithHint(
				forage.Errorf(forage.ErrRefused, "making a place for %s in %s: %w", mount.Target, outer.Path, err),
				"choose another place for it, or take what is there out of the branch")
		}
	}
	return nil
}

// stillThere refuses to start or fork a sandbox whose workspace, or its repository, was moved or
// removed by hand.
func stillThere(plan forage.Plan, what string) error {
	for _, w := range plan.Workspaces() {
		if !exists(w.Path) {
			return gone(plan.Name, w, what, w.Path)
		}
		if w.Repository != nil && !exists(w.Repository.Store) {
			return gone(plan.Name, w, what, w.Repository.Store)
		}
	}
	return nil
}

// gone says that something can't be done with a sandbox, or a part of its workspace, since path is
// not there any more.
func gone(name string, w forage.Workspace, what, path string) error {
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "%s can't be %s without %s, which is gone", partName(name, w), what, path),
		"move it back, or `forage-ctl down --force "+name+"` keeps what can be found of the work for 30 days and removes the sandbox")
}

// hideParts adds, for each part that is mounted in another one, a pattern to the other one's
// info/exclude: its files are not that repository's. It is called while the workspace is made.
// Later the metadata is the agent's, and is not written to.
func hideParts(parts []forage.Workspace) error {
	for _, w := range parts {
		outer, ok := holds(parts, w.Target)
		if !ok || outer.Repository == nil {
			continue
		}
		info := filepath.Join(outer.Repository.Dir, "git/info")
		if err := os.MkdirAll(info, 0o755); err != nil {
			return err
		}
		file, err := os.OpenFile(filepath.Join(info, "exclude"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(file, "\n%s/\n", excludePattern(strings.TrimPrefix(w.Target, outer.Target)))
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// excludePattern is a path as a pattern of gitignore(5) that matches it alone.
func excludePattern(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, ` `, `\ `).Replace(path)
}

// makeFolder makes place, and what leads to it, below root.
func makeFolder(root, place string) error {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.MkdirAll(place, 0o755); err != nil {
		return err
	}
	return plainFolder(root, filepath.Join(root, place))
}
