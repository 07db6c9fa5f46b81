package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"forage"
	"forage/internal/term"
	"forage/internal/workspace/gitrepo"
)

// maxFollowed is how many links the kernel follows on one path: path_resolution(7).
const maxFollowed = 40

// accept looks at what the user's branch would get, and refuses what must not come out of a sandbox.
func (s *Session) accept(ctx context.Context, t *target, r result) ([]Change, error) {
	from := t.commit
	if from == "" {
		from = s.Base // of a branch that is new, what the user has already is not at issue
	}
	before, err := s.treeOf(ctx, from)
	if err != nil {
		return nil, err
	}
	after, err := s.treeOf(ctx, cmp.Or(r.files, r.commit))
	if err != nil {
		return nil, err
	}
	changes, err := s.acceptTree(ctx, before, after, nil)
	if err != nil {
		return nil, err
	}
	return changes, refusal(s.subject.Sandbox, t.entered(changes))
}

// entered are the new submodules in whose folders git of the user's, on git status too, would execute what a repository
// there says: one that the agent has made, or can still make while the folder is its workspace.
func (t *target) entered(changes []Change) []string {
	if !t.checkedOut || t.repo.WorkTree == "" {
		return nil
	}
	var refused []string
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

// acceptTree is accept for trees. around are links beside those of the trees.
func (s *Session) acceptTree(ctx context.Context, before, after string, around map[string]string) ([]Change, error) {
	changes, err := s.changes(ctx, before, after, false)
	if err != nil {
		return nil, err
	}
	var refused []string
	links := false
	for _, c := range changes {
		if why := wrong(c); why != "" {
			refused = append(refused, term.Escape(c.Path)+" ("+why+")")
		}
		links = links || c.OldMode == modeLink || c.NewMode == modeLink
	}
	if doubled, err := s.doubled(ctx, after); err != nil {
		return nil, err
	} else if doubled != "" {
		refused = append(refused, term.Escape(doubled)+" (it is there twice)")
	}
	if links {
		leaving, err := s.leaving(ctx, before, after, around)
		if err != nil {
			return nil, err
		}
		refused = append(refused, leaving...)
	}
	return changes, refusal(s.subject.Sandbox, refused)
}

func refusal(sandbox string, refused []string) error {
	if len(refused) == 0 {
		return nil
	}
	const most = 20
	text := strings.Join(refused[:min(len(refused), most)], ", ")
	if more := len(refused) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "this must not come out of a sandbox: %s", text),
		"look at them with `forage-ctl diff "+sandbox+"`, and leave them out: name the others with --paths")
}

// wrong says why no tree of the user's may get this file; "" when it may.
func wrong(c Change) string {
	switch c.NewMode {
	case 0:
		return ""
	case 0o100644, 0o100755, modeLink, modeGitlink:
		return gitrepo.UnsafePath(c.Path)
	}
	return fmt.Sprintf("its mode is %o", c.NewMode)
}

// doubled finds a path that a tree has twice, or as a file and as a folder: through the one, files of the other would
// be written elsewhere. git's check of what comes in refuses such trees; this is the second wall.
func (s *Session) doubled(ctx context.Context, tree string) (string, error) {
	list, err := s.staging.Git(ctx, gitrepo.Call{Args: []string{"ls-tree", "-r", "-z", "--name-only", tree}})
	if err != nil {
		return "", err
	}
	seen := make(map[string]bool)
	names := strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
	for _, name := range names {
		if seen[name] {
			return name, nil
		}
		seen[name] = true
	}
	checked := make(map[string]bool) // folders
	for _, name := range names {
		for dir := path.Dir(name); dir != "." && dir != "/" && !checked[dir]; dir = path.Dir(dir) {
			if checked[dir] = true; seen[dir] {
				return dir, nil
			}
		}
	}
	return "", nil
}

// leaving are the links of after that lead out of the tree or into .git, and did not before.
func (s *Session) leaving(ctx context.Context, before, after string, around map[string]string) ([]string, error) {
	old, err := s.links(ctx, before)
	if err != nil {
		return nil, err
	}
	links, err := s.links(ctx, after)
	if err != nil {
		return nil, err
	}
	for name, target := range around {
		if _, there := old[name]; !there { // else it is one that was changed or removed
			old[name], links[name] = target, target
		}
	}
	var refused []string
	for name, target := range links {
		if why := follow(links, name); why != "" && (old[name] != target || follow(old, name) == "") {
			refused = append(refused, fmt.Sprintf("%s (a link to %s, which %s)", term.Escape(name), term.Escape(target), why))
		}
	}
	slices.Sort(refused)
	return refused, nil
}

// links are what the links of a tree say, by their path.
func (s *Session) links(ctx context.Context, tree string) (map[string]string, error) {
	list, err := s.staging.Git(ctx, gitrepo.Call{Args: []string{"ls-tree", "-r", "-z", tree}})
	if err != nil {
		return nil, err
	}
	ids := make(map[string]string)
	var all []string
	for entry := range strings.SplitSeq(string(list), "\x00") {
		head, name, ok := strings.Cut(entry, "\t")
		if parts := strings.Fields(head); ok && parts[0] == "120000" {
			ids[name] = parts[2]
			all = append(all, parts[2])
		}
	}
	slices.Sort(all)
	targets, err := s.targets(ctx, slices.Compact(all))
	if err != nil {
		return nil, err
	}
	found := make(map[string]string, len(ids))
	for name, id := range ids {
		target, ok := targets[id]
		if !ok {
			target = "/" + strings.Repeat("?", 8) // too long to be followed by any kernel
		}
		found[name] = target
	}
	return found, nil
}

// follow says where a link of a tree ends, as the kernel would find it, other links of the tree included: "" is inside.
func follow(links map[string]string, name string) string {
	target := links[name]
	var at []string // folders from the root of the tree
	if dir := path.Dir(name); dir != "." {
		at = strings.Split(dir, "/")
	}
	todo := strings.Split(target, "/")
	if strings.HasPrefix(target, "/") {
		return "leads out of the tree"
	}
	for followed := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if len(at) == 0 {
				return "leads out of the tree"
			}
			at = at[:len(at)-1]
			continue
		}
		at = append(at, part)
		if gitrepo.UnsafePath(part) != "" {
			return "leads into a repository's metadata"
		}
		next, isLink := links[strings.Join(at, "/")]
		if !isLink {
			continue
		}
		if followed++; followed > maxFollowed {
			return "leads round and round"
		}
		if strings.HasPrefix(next, "/") {
			return "leads out of the tree"
		}
		at = at[:len(at)-1]
		todo = append(strings.Split(next, "/"), todo...)
	}
	return ""
}

// converted says of which of the files that come to the user's folder attributes make something else than what was shown: they are
// converted, as git does it everywhere, or would have gone through a filter of the user's, as those of LFS do. No filter runs here.
func (s *Session) converted(ctx context.Context, t *target, r result, changes []Change) ([]string, error) {
	if t.folder() == "" {
		return nil, nil
	}
	var names strings.Builder
	moved := make(map[string]bool)
	for _, c := range changes {
		if c.OldMode == modeGitlink && c.NewMode == modeGitlink {
			moved[c.Path] = true
		}
		if c.NewMode == 0o100644 || c.NewMode == 0o100755 {
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
			"check-attr", "--cached", "-z", "--stdin", "filter", "working-tree-encoding", "ident", "eol",
		},
		Stdin: []byte(names.String()), Index: index, Brief: true,
	})
	if err != nil {
		return nil, gitrepo.TooLong(err)
	}
	filtered := make(map[string]bool)
	converted := make(map[string]bool)
	fields := strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
	for ; len(fields) >= 3; fields = fields[3:] {
		name, attribute, value := fields[0], fields[1], fields[2]
		switch {
		case value == "unspecified", value == "unset", attribute == "eol" && value != "crlf":
		case attribute == "filter":
			filtered[name] = true
		default:
			converted[name] = true
		}
	}
	var notes []string
	if len(filtered) > 0 {
		notes = append(notes, fmt.Sprintf(
			"%d files have a filter, which was not run: %s. Those of Git LFS are pointers: `git lfs pull` in %s brings what they stand for",
			len(filtered), some(filtered), t.repo.WorkTree))
	}
	if len(moved) > 0 {
		notes = append(notes, "submodules are to be at other commits: "+some(moved)+"; `git submodule update` in "+t.repo.WorkTree+" brings their files there")
	}
	if len(converted) > 0 {
		notes = append(notes, "attributes have git write these files in another form than `diff` shows (line ends, $Id$, an encoding): "+some(converted))
	}
	return notes, nil
}

// some are the first of many names, escaped.
func some(names map[string]bool) string {
	const most = 10
	all := slices.Sorted(maps.Keys(names))
	shown := all[:min(len(all), most)]
	for i, name := range shown {
		shown[i] = term.Escape(name)
	}
	text := strings.Join(shown, ", ")
	if more := len(all) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
