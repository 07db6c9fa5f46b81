package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"forage"
	"forage/internal/term"
	"forage/internal/workspace/gitrepo"
)

// accept looks at what the user's branch would get, and refuses what must not come out of a sandbox.
func (s *Session) accept(ctx context.Context, t *target, r result) ([]Change, error) {
	before, err := s.treeOf(ctx, cmp.Or(t.commit, s.Base)) // of a branch that is new, what the user has already is not at issue
	if err != nil {
		return nil, err
	}
	after, err := s.treeOf(ctx, cmp.Or(r.files, r.commit))
	if err != nil {
		return nil, err
	}
	changes, err := s.changes(ctx, before, after, false)
	if err != nil {
		return nil, err
	}
	refused := t.entered(changes)
	links := false
	for _, c := range changes {
		if why := wrong(c); why != "" {
			refused = append(refused, term.Escape(c.Path)+" ("+why+")")
		}
		links = links || c.OldMode == modeLink || c.NewMode == modeLink
	}
	// git's check of what comes in refuses a tree that has a path twice; this is the second wall.
	list, err := s.staging.Git(ctx, gitrepo.Call{Args: []string{"ls-tree", "-r", "-t", "-z", "--name-only", after}})
	if err != nil {
		return nil, err
	}
	names := split(list)
	slices.Sort(names)
	for i := range names[1:] {
		if names[i] == names[i+1] {
			refused = append(refused, term.Escape(names[i])+" (it is there twice)")
		}
	}
	if links {
		leaving, err := s.leaving(ctx, before, after)
		if err != nil {
			return nil, err
		}
		refused = append(refused, leaving...)
	}
	if len(refused) == 0 {
		return changes, nil
	}
	return nil, forage.WithHint(
		forage.Errorf(forage.ErrRefused, "this must not come out of a sandbox: %s", term.Names(refused)),
		"look at them with `forage-ctl diff "+s.subject.Sandbox+"`, and leave them out: name the others with --paths")
}

// entered are the new submodules in whose folders git of the user's, on git status too, would execute what a repository
// there says: one that the agent has made, or can still make while the folder is its workspace.
func (t *target) entered(changes []Change) (refused []string) {
	if !t.checkedOut || t.repo.WorkTree == "" {
		return nil
	}
	for _, c := range changes {
		if c.NewMode != modeGitlink || c.OldMode == modeGitlink {
			continue
		}
		_, err := os.Lstat(filepath.Join(t.repo.WorkTree, c.Path, ".git"))
		if t.direct || !errors.Is(err, fs.ErrNotExist) {
			refused = append(refused, term.Escape(c.Path)+" (a new submodule: git would execute what a repository in that folder says)")
		}
	}
	return refused
}

// wrong says why no tree of the user's may get this file; "" when it may.
func wrong(c Change) string {
	switch c.NewMode {
	case 0:
		return ""
	case modeFile | 0o644, modeFile | 0o755, modeLink, modeGitlink:
		return gitrepo.UnsafePath(c.Path)
	}
	return fmt.Sprintf("its mode is %o", c.NewMode)
}

// leaving are the links of after that lead out of the tree or into .git, and did not before.
func (s *Session) leaving(ctx context.Context, before, after string) (refused []string, err error) {
	old, err := s.links(ctx, before)
	if err != nil {
		return nil, err
	}
	links, err := s.links(ctx, after)
	if err != nil {
		return nil, err
	}
	for name, target := range links {
		if why := leads(links, name, 0); why != "" && (old[name] != target || leads(old, name, 0) == "") {
			refused = append(refused, fmt.Sprintf("%s (a link to %s, which %s)", term.Escape(name), term.Escape(target), why))
		}
	}
	slices.Sort(refused)
	return refused, nil
}

// maxFollowed is how many links the kernel follows on one path: path_resolution(7).
const maxFollowed = 40

// leads says why a link must not be; "" when it stays in the tree. ".." is allowed at its beginning alone: the folders above a link are
// folders. What comes after may pass through other links, which stay in the tree, too.
func leads(links map[string]string, name string, followed int) string {
	target := links[name]
	up := strings.TrimSuffix(target, "/")
	for strings.HasPrefix(up, "../") {
		up = up[len("../"):]
	}
	to := path.Join(path.Dir(name), target)
	switch {
	case strings.HasPrefix(target, "/"), to == "..", strings.HasPrefix(to, "../"):
		return "leads out of the tree"
	case up != ".." && slices.Contains(strings.Split(up, "/"), ".."):
		return "goes up after it went down"
	case gitrepo.UnsafePath(to) != "" && to != ".":
		return "leads into a repository's metadata"
	case followed > maxFollowed:
		return "leads round and round"
	}
	for on := to; on != "."; on = path.Dir(on) {
		if _, isLink := links[on]; isLink { // nothing is below one in a tree
			return leads(links, on, followed+1)
		}
	}
	return ""
}

// filtered says which of the files that come to the user's folder would have gone through a filter of the user's, as those of LFS do.
// No filter runs here.
func (s *Session) filtered(ctx context.Context, t *target, r result, changes []Change) (notes []string, err error) {
	if t.folder() == "" {
		return nil, nil
	}
	var names strings.Builder
	var moved []string
	for _, c := range changes {
		if c.OldMode == modeGitlink && c.NewMode == modeGitlink {
			moved = append(moved, c.Path)
		}
		if c.NewMode&^0o777 == modeFile {
			names.WriteString(c.Path + "\x00")
		}
	}
	index := s.staging.Dir + "/attributes.index"
	if _, err := s.staging.Git(ctx, gitrepo.Call{Args: []string{"read-tree", cmp.Or(r.files, r.commit)}, Index: index}); err != nil {
		return nil, err
	}
	list, err := s.staging.Git(ctx, gitrepo.Call{
		Args: []string{
			// The user's own, which apply doesn't go by.
			"-c", "core.attributesFile=" + filepath.Join(t.repo.Common, "info/attributes"),
			"check-attr", "--cached", "-z", "--stdin", "filter",
		},
		Stdin: []byte(names.String()), Index: index, Brief: true,
	})
	if err != nil {
		return nil, gitrepo.TooLong(err)
	}
	var filtered []string
	for fields := split(list); len(fields) >= 3; fields = fields[3:] {
		if name, value := fields[0], fields[2]; value != "unspecified" && value != "unset" {
			filtered = append(filtered, name)
		}
	}
	if len(filtered) > 0 {
		notes = append(notes, fmt.Sprintf(
			"%d files have a filter, which was not run: %s. Those of Git LFS are pointers: `git lfs pull` in %s brings what they stand for",
			len(filtered), term.Names(filtered), t.repo.WorkTree))
	}
	if len(moved) > 0 {
		notes = append(notes, "submodules are to be at other commits: "+term.Names(moved)+"; `git submodule update` in "+t.repo.WorkTree+" brings their files there")
	}
	return notes, nil
}
