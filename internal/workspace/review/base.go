package review

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"forage"
	"forage/internal/workspace/gitrepo"
)

// findBase finds what the work is compared with: the merge base, as git finds it, with what earlier applies brought.
func (s *Session) findBase(ctx context.Context) (err error) {
	s.Base, s.brought, s.onto, s.all, s.mixed = s.subject.Workspace.Base, nil, "", "", false
	theirs := s.at
	if theirs == "" && s.source != nil { // a branch that is to be made
		if theirs, err = s.branchAt(ctx, s.source.Head); err != nil {
			return err
		}
	}
	there, common := s.has(ctx, theirs), ""
	if there && s.tip != "" {
		s.brought = append(s.brought, theirs)
		if common, _ = s.line(ctx, "merge-base", theirs, s.tip); common != "" {
			s.Base = common
		} // no common commit: the base stays
	}
	if s.base, err = s.treeOf(ctx, s.Base); err != nil {
		return err
	}
	if s.at == "" || !there || s.tip != "" && s.at == common {
		return nil
	}
	return s.mixBase(ctx)
}

// mixBase puts what earlier applies brought in the place of the merge base's files. That is right in one case: the work goes on
// from what was applied, and the user's branch has it. The branch has it if its history has the commit of that apply, or else,
// file by file, if it has exactly that content. In all other cases the merge base is the real one.
func (s *Session) mixBase(ctx context.Context) error {
	decided := make(map[string]bool)
	var mixed []Change
	for _, m := range s.state.Applied {
		if m.Tip != "" && (s.tip == "" || !s.isAncestor(ctx, m.Tip, s.tip)) || !s.has(ctx, m.Work) {
			continue
		}
		inHistory := m.After != "" && s.isAncestor(ctx, m.After, s.at)
		got, err := s.changes(ctx, s.base, m.Work, false)
		if err != nil {
			return err
		}
		others, err := s.paths(ctx, s.at, m.Work)
		if err != nil {
			return err
		}
		stashed, err := s.stashed(ctx, m)
		if err != nil {
			return err
		}
		has := true
		for _, c := range got {
			if !inHistory && others[c.Path] {
				has = false
				continue
			}
			if !decided[c.Path] && !stashed[c.Path] {
				mixed = append(mixed, c)
			}
			decided[c.Path] = true
		}
		if m.All != "" && has {
			s.brought, s.all = append(s.brought, m.All), m.All
		}
		if inHistory && m.Tip == s.tip && s.onto == "" && s.isAncestor(ctx, m.Work, s.at) {
			s.onto = m.Work
		}
		if inHistory { // so is all that came before
			break
		}
	}
	if s.mixed = len(mixed) > 0; !s.mixed {
		return nil
	}
	var err error
	s.base, err = s.edit(ctx, s.base, mixed)
	return err
}

// stashed are the files that were not committed at an earlier apply, and now are as the commits have them, which went on since:
// the agent may have put them aside, or begun something else. That takes nothing out of the user's branch.
func (s *Session) stashed(ctx context.Context, m mark) (map[string]bool, error) {
	if m.Tip == s.tip {
		return nil, nil
	}
	committed, err := s.treeOf(ctx, m.Tip)
	if err != nil {
		return nil, err
	}
	stashed, err := s.paths(ctx, committed, m.Work)
	if err != nil {
		return nil, err
	}
	differ, err := s.paths(ctx, committed, s.work)
	for path := range differ {
		delete(stashed, path)
	}
	return stashed, err
}

// paths are those that differ between two trees.
func (s *Session) paths(ctx context.Context, from, to string) (map[string]bool, error) {
	changes, err := s.changes(ctx, from, to, false)
	paths := make(map[string]bool, len(changes))
	for _, c := range changes {
		paths[c.Path] = true
	}
	return paths, err
}

// edit is a tree with changes.
func (s *Session) edit(ctx context.Context, tree string, changes []Change) (string, error) {
	var removed, added strings.Builder
	for _, c := range changes {
		if c.NewMode == 0 {
			fmt.Fprintf(&removed, "0 %s\t%s\x00", c.newID, c.Path)
		} else {
			fmt.Fprintf(&added, "%o %s\t%s\x00", c.NewMode, c.newID, c.Path)
		}
	}
	index := s.staging.Dir + "/edit.index"
	var out []byte
	for _, call := range []gitrepo.Call{
		{Args: []string{"read-tree", tree}},
		{Args: []string{"update-index", "-z", "--add", "--replace", "--index-info"}, Stdin: []byte(removed.String() + added.String())},
		{Args: []string{"write-tree"}},
	} {
		call.Index = index
		var err error
		if out, err = s.staging.Git(ctx, call); err != nil {
			return "", err
		}
	}
	return strings.TrimSpace(string(out)), nil
}

// merge brings a commit of the work together with the user's branch, without any working folder: git-merge-tree(1). It refuses where
// they conflict. mixed: see joined.
func (s *Session) merge(ctx context.Context, ours, work string, mixed bool) (tree string, err error) {
	from := ours
	if mixed { // git finds the base by history, so history has to say it
		base, err := s.commitTree(ctx, nobody, s.base, "")
		if err != nil {
			return "", err
		}
		for _, commit := range []*string{&ours, &work} {
			if *commit, err = s.commitTree(ctx, nobody, *commit+"^{tree}", "", base); err != nil {
				return "", err
			}
		}
	}
	out, err := s.staging.Git(ctx, gitrepo.Call{Args: []string{"merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, work}})
	parts := split(bytes.TrimRight(out, "\x00"))
	switch {
	case len(parts) > 1:
		return "", s.conflict(from, parts[1:])
	case err != nil: // it didn't get as far as files
		return "", forage.Errorf(forage.ErrRefused, "merging: %w", err)
	}
	return parts[0], nil
}
