package review

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"forage"
	"forage/internal/term"
	"forage/internal/workspace/autorun"
	"forage/internal/workspace/gitrepo"
)

// maxTarget bounds what a link says, in bytes: PATH_MAX.
const maxTarget = 4096

// lookForFindings looks at the changes, and at what is no part of them.
func (s *Session) lookForFindings(ctx context.Context, tree gitrepo.Tree) error {
	changes, err := s.withHidden(ctx)
	if err != nil {
		return err
	}
	links := make(map[string]string)
	if slices.ContainsFunc(changes, func(c Change) bool { return c.NewMode == modeLink }) {
		for _, tree := range []string{s.work, s.Tree} {
			more, err := s.links(ctx, tree)
			if err != nil {
				return err
			}
			maps.Copy(links, more)
		}
	}
	for _, c := range changes {
		if c.Status == Renamed { // it is new where it is now
			c.OldMode = 0
		}
		if finding, ok := autorun.Classify(c.Path, c.OldMode, c.NewMode, links[c.Path]); ok {
			s.Findings = append(s.Findings, finding)
		}
	}
	for _, nested := range tree.Nested {
		s.Findings = append(s.Findings, autorun.Finding{
			Path: nested, Kind: autorun.KindRepository,
			Why: "a repository of its own: git executes what its configuration says. It is no part of this review, and apply leaves it out",
		})
	}
	autorun.Sort(s.Findings)
	return nil
}

// withHidden are the changes and, in the user's own folder, those that are committed and not in the files: there Apply brings the commits.
func (s *Session) withHidden(ctx context.Context) ([]Change, error) {
	if !s.subject.direct() || s.subject.Workspace.Repository.Kind != forage.RepositoryGit {
		return s.Changes, nil
	}
	others, err := s.changes(ctx, s.base, s.work, false)
	if err != nil {
		return nil, err
	}
	shown := make(map[string]bool)
	for _, c := range s.Changes {
		shown[c.Path+c.newID] = true
	}
	hidden := slices.DeleteFunc(others, func(c Change) bool { return shown[c.Path+c.newID] })
	if len(hidden) > 0 {
		var names []string
		for _, c := range hidden {
			names = append(names, c.Path)
		}
		s.Notes = append(s.Notes, "what is committed of these files is not what the folder has, and is not shown: "+term.Names(names))
	}
	return slices.Concat(s.Changes, hidden), nil
}

// AddFindings adds what was found by looking through the folder. What git ignores is no change, and is executed all the same; what
// is in the base as it is has come to the user before.
func (s *Session) AddFindings(ctx context.Context, found []autorun.Finding) error {
	known := make(map[string]bool)
	for _, c := range s.Changes {
		known[c.Path] = true
	}
	for _, f := range s.Findings {
		known[f.Path+"\x00"+string(f.Kind)] = true
	}
	found = slices.DeleteFunc(slices.Clone(found), func(f autorun.Finding) bool { return known[f.Path+"\x00"+string(f.Kind)] })
	if len(found) == 0 {
		return nil
	}
	args, asked := []string{"ls-tree", "-z", "--name-only", s.base, "--"}, 0
	for _, f := range found {
		if asked += len(f.Path) + 1; asked <= maxAsked { // what is not asked about is shown
			args = append(args, f.Path)
		}
	}
	list, err := s.staging.Git(ctx, gitrepo.Call{Args: args})
	if err != nil {
		return err
	}
	had := make(map[string]bool)
	for _, name := range split(list) {
		had[name] = true
	}
	for _, f := range found {
		if !had[f.Path] || known[f.Path] {
			s.Findings = append(s.Findings, f)
		}
	}
	autorun.Sort(s.Findings)
	return nil
}

// maxAsked bounds the arguments of one command, in bytes: execve(2), "Limits on size of arguments and environment".
const maxAsked = 256 << 10

// links are what the links of a tree say, by their path. Of one that is too long for the kernel it is "//".
func (s *Session) links(ctx context.Context, tree string) (map[string]string, error) {
	list, err := s.staging.Git(ctx, gitrepo.Call{Args: []string{"ls-tree", "-r", "-l", "-z", tree}})
	if err != nil {
		return nil, err
	}
	found := make(map[string]string)
	var asked []string
	var ids strings.Builder
	for _, entry := range split(list) {
		head, name, _ := strings.Cut(entry, "\t")
		is := strings.Fields(head) // MODE blob ID SIZE
		if len(is) < 4 || is[0] != "120000" {
			continue
		}
		found[name] = "//"
		if size, err := strconv.Atoi(is[3]); err == nil && size <= maxTarget {
			asked = append(asked, name)
			ids.WriteString(is[2] + "\n")
		}
	}
	if len(asked) == 0 {
		return found, nil
	}
	text, err := s.staging.Git(ctx, gitrepo.Call{Args: []string{"cat-file", "--batch"}, Stdin: []byte(ids.String())})
	if err != nil {
		return nil, err
	}
	return found, parseBatch(text, asked, found)
}

// parseBatch reads what git cat-file --batch writes of these names: "ID blob SIZE", a line end, the content, a line end.
func parseBatch(text []byte, names []string, found map[string]string) error {
	for _, name := range names {
		head, rest, _ := bytes.Cut(text, []byte("\n"))
		var id string
		var size int
		if _, err := fmt.Sscanf(string(head), "%s blob %d", &id, &size); err != nil || size < 0 || size >= len(rest) {
			return fmt.Errorf("git says of a link %q", head)
		}
		found[name] = string(rest[:size])
		text = rest[size+1:]
	}
	return nil
}
