package gitrepo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"forage"
	"forage/internal/workspace"
)

// Layout is where private metadata is, and what it is shown over.
type Layout struct {
	Dir      string      // on the host; nothing need be there yet
	Part     string      // of the workspace: names the place of the objects inside
	Target   string      // of the workspace inside
	Pointer  bool        // the workspace on the host has a .git file, not a folder
	ReadOnly bool        //
	Host     bool        // the user's branches are shown as a remote
	Objects  []ObjectDir // the host's: the repository's own first
}

// ObjectDir is a folder of objects on the host.
type ObjectDir struct {
	Path string // links resolved
	// Borrows: it has a file info/alternates, which names paths of the host's and must not be read inside.
	Borrows bool
}

// ObjectDirs are the folders with all objects of the repository: its own and those it borrows from.
func (r *Repository) ObjectDirs() ([]ObjectDir, error) {
	var found []ObjectDir
	var add func(dir string, depth int) error
	add = func(dir string, depth int) error {
		if depth > 5 { // as git has it
			return forage.Errorf(forage.ErrUnsupported, "%s borrows objects over too many steps", r.Common)
		}
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return forage.WithHint(
				forage.Errorf(forage.ErrUnsupported, "the repository %s has lost objects: %w", r.Common, err),
				"look at its objects/info/alternates")
		}
		if slices.ContainsFunc(found, func(o ObjectDir) bool { return o.Path == dir }) {
			return nil
		}
		if err := r.checkObjects(dir); err != nil {
			return err
		}
		text, err := readRegular(filepath.Join(dir, "info/alternates"), maxPointer)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		found = append(found, ObjectDir{Path: dir, Borrows: err == nil})
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\r\n")
			if line == "" || line[0] == '#' {
				continue
			}
			line, ok := unquoteAlternate(line)
			if !ok {
				return forage.Errorf(forage.ErrUnsupported, "%s borrows objects from an odd path: %s", dir, line)
			}
			if !filepath.IsAbs(line) {
				line = filepath.Join(dir, line)
			}
			if err := add(line, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return found, add(filepath.Join(r.Common, "objects"), 0)
}

// checkObjects refuses, when root calls, a folder of objects of which another user said that it is shown inside, or says in info/alternates
// what else is.
func (r *Repository) checkObjects(dir string) error {
	switch {
	case !r.foreign:
		return workspace.CheckOwner(dir)
	case dir == filepath.Join(r.Common, "objects"):
		return nil
	}
	return fmt.Errorf("showing the objects in %s: %w", dir, r.checkOwner())
}

// Names of what is in a private folder beside git/.
const (
	pointerFile = "pointer"    // a .git file
	emptyFile   = "alternates" // shown over the info/alternates of the host's objects
)

// Mounts show private metadata inside, and the host's objects read-only.
func (l Layout) Mounts() []forage.Mount {
	place := path.Join(forage.RepositoriesPath, l.Part)
	var mounts []forage.Mount
	for i, objects := range l.Objects {
		target := objectsInside(place, i)
		mounts = append(mounts, forage.Mount{Source: objects.Path, Target: target})
		if objects.Borrows {
			mounts = append(mounts, forage.Mount{Source: filepath.Join(l.Dir, emptyFile), Target: path.Join(target, "info/alternates")})
		}
	}
	if l.Host {
		mounts = append(mounts, forage.Mount{Source: filepath.Join(l.Dir, hostRemote), Target: path.Join(place, hostRemote)})
	}
	git := forage.Mount{Source: filepath.Join(l.Dir, "git"), Target: path.Join(l.Target, ".git"), Writable: !l.ReadOnly}
	if !l.Pointer {
		return append(mounts, git)
	}
	pointer := forage.Mount{Source: filepath.Join(l.Dir, pointerFile), Target: git.Target}
	git.Target = path.Join(place, "git")
	return append(mounts, git, pointer)
}

func objectsInside(place string, i int) string {
	if i == 0 {
		return path.Join(place, "objects")
	}
	return path.Join(place, "objects."+strconv.Itoa(i))
}

// alternatesInside is the text of objects/info/alternates: where the host's objects are shown.
func alternatesInside(repository forage.Repository) string {
	var b strings.Builder
	for _, m := range repository.Mounts {
		if name := path.Base(m.Target); name == "objects" || strings.HasPrefix(name, "objects.") {
			b.WriteString(m.Target + "\n")
		}
	}
	return b.String()
}

// writeBeside makes what is shown beside the private git directory: neither is ever writable inside.
func writeBeside(repository forage.Repository) error {
	for _, m := range repository.Mounts {
		var text string
		switch m.Source {
		case filepath.Join(repository.Dir, pointerFile):
			text = fmt.Sprintf("gitdir: %s\n", insideGit(repository))
		case filepath.Join(repository.Dir, emptyFile):
		default:
			continue
		}
		if err := os.WriteFile(m.Source, []byte(text), 0o600); err != nil { // one empty file may be shown twice
			return err
		}
	}
	return nil
}

// insideGit is where the private git directory is shown.
func insideGit(repository forage.Repository) string {
	for _, m := range repository.Mounts {
		if m.Source == filepath.Join(repository.Dir, "git") {
			return m.Target
		}
	}
	return ""
}

// PlanPrivate decides how private metadata over the repository is laid out. It makes nothing.
func (r *Repository) PlanPrivate(l Layout, head string) (*forage.Repository, error) {
	var err error
	if l.Objects, err = r.ObjectDirs(); err != nil {
		return nil, err
	}
	return &forage.Repository{Kind: forage.RepositoryGit, Dir: l.Dir, Store: r.Common, Head: head, Mounts: l.Mounts()}, nil
}

// Branch is the branch of the host's repository that a part of a sandbox has for itself.
func Branch(sandbox, part string) string {
	if part == workspace.Main {
		return workspace.BranchPrefix + sandbox
	}
	return workspace.BranchPrefix + sandbox + "." + part
}
