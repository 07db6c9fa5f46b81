package review

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"forage"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/hazard"
)

// maxTarget bounds what a link says, in bytes: PATH_MAX.
const maxTarget = 4096

// findHazards looks at the changes, and at what is no part of them.
func (s *Session) findHazards(ctx context.Context, tree gitrepo.Tree) error {
	changes, err := s.withHidden(ctx)
	if err != nil {
		return err
	}
	var links []string
	for _, c := range changes {
		if c.NewMode == modeLink {
			links = append(links, c.newID)
		}
	}
	targets, err := s.targets(ctx, links)
	if err != nil {
		return err
	}
	for _, c := range changes {
		oldMode := c.OldMode
		if c.Status == Renamed { // it is new where it is now
			oldMode = 0
		}
		if finding, ok := hazard.Classify(c.Path, oldMode, c.NewMode, targets[c.newID]); ok {
			s.Hazards = append(s.Hazards, finding)
		}
	}
	for _, nested := range tree.Nested {
		s.Hazards = append(s.Hazards, hazard.Finding{
			Path: nested, Kind: hazard.KindRepository,
			Why: "a repository of its own: git executes what its configuration says. It is no part of this review, and apply leaves it out",
		})
	}
	hazard.Sort(s.Hazards)
	return nil
}

// withHidden are the changes and, in the user's own folder, those that are committed and not in the files: there Apply brings the commits.
func (s *Session) withHidden(ctx context.Context) ([]Change, error) {
	if w := s.subject.Workspace; w.Mode != forage.WorkspaceDirect || w.Repository.Kind != forage.RepositoryGit {
		return s.Changes, nil
	}
	committed, err := s.treeOf(ctx, s.tip)
	if err != nil {
		return nil, err
	}
	others, err := s.changes(ctx, s.base, committed, false)
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
		for _, c := range hidden[:min(len(hidden), 20)] {
			names = append(names, c.Path)
		}
		s.Notes = append(s.Notes, "what is committed of these files is not what the folder has, and is not shown: "+strings.Join(names, ", "))
	}
	return slices.Concat(s.Changes, hidden), nil
}

// AddHazards adds what was found by looking through the folder. What git ignores is no change, and is executed all the same; what
// is in the base as it is has come to the user before.
func (s *Session) AddHazards(ctx context.Context, found []hazard.Finding) error {
	args := []string{"ls-tree", "-z", "--name-only", s.base, "--"}
	changed := make(map[string]bool)
	for _, c := range s.Changes {
		changed[c.Path] = true
	}
	var more []hazard.Finding
	asked := 0
	for _, f := range found {
		if slices.ContainsFunc(s.Hazards, func(known hazard.Finding) bool { return known.Path == f.Path && known.Kind == f.Kind }) {
			continue
		}
		more = append(more, f)
		if asked += len(f.Path) + 1; asked <= maxAsked { // what is not asked about is shown
			args = append(args, f.Path)
		}
	}
	if len(more) == 0 {
		return nil
	}
	list, err := s.staging.Git(ctx, gitrepo.Call{Args: args})
	if err != nil {
		return err
	}
	had := make(map[string]bool)
	for name := range strings.SplitSeq(string(list), "\x00") {
		had[name] = true
	}
	for _, f := range more {
		if !had[f.Path] || changed[f.Path] {
			s.Hazards = append(s.Hazards, f)
		}
	}
	hazard.Sort(s.Hazards)
	return nil
}

// maxAsked bounds the arguments of one command, in bytes: execve(2), "Limits on size of arguments and environment".
const maxAsked = 256 << 10

// targets are what links say, by the id of their blob. One that is too long to be a link isn't among them.
func (s *Session) targets(ctx context.Context, ids []string) (map[string]string, error) {
	found := make(map[string]string, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	sizes, err := s.staging.Git(ctx, gitrepo.Call{
		Args: []string{"cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)"}, Stdin: []byte(strings.Join(ids, "\n") + "\n"),
	})
	if err != nil {
		return nil, err
	}
	var short bytes.Buffer
	for line := range strings.Lines(string(sizes)) {
		parts := strings.Fields(line)
		if len(parts) != 3 || parts[1] != "blob" {
			continue
		}
		if size, err := strconv.Atoi(parts[2]); err == nil && size <= maxTarget {
			short.WriteString(parts[0] + "\n")
		}
	}
	text, err := s.staging.Git(ctx, gitrepo.Call{Args: []string{"cat-file", "--batch"}, Stdin: short.Bytes()})
	if err != nil {
		return nil, err
	}
	return found, parseBatch(text, found)
}

// parseBatch reads what git cat-file --batch writes: "ID blob SIZE", a line end, the content, a line end.
func parseBatch(text []byte, found map[string]string) error {
	for len(text) > 0 {
		head, rest, ok := bytes.Cut(text, []byte("\n"))
		var id string
		var size int
		if _, err := fmt.Sscanf(string(head), "%s blob %d", &id, &size); !ok || err != nil || size < 0 || size >= len(rest) {
			return fmt.Errorf("git says of a link %q", head)
		}
		found[id] = string(rest[:size])
		text = rest[size+1:]
	}
	return nil
}
