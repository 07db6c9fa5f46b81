package review

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"forage"
	"forage/internal/workspace/gitrepo"
)

// mark says what a branch of the user's has got of the work. What was not committed when it was brought is in no history that the
// sandbox's later commits have, so git alone would bring it a second time, and find that it conflicts with itself.
type mark struct {
	// Work is a commit of the sandbox's files as they were brought, on top of the commits that were. Our staging has it, the
	// user's repository need not.
	Work  string `json:"work"`
	Tip   string `json:"tip,omitempty"` // of the sandbox then, if all of it was brought
	After string `json:"after"`         // where the user's branch was then
}

// maxMarks is how many are kept for a branch: where the user took the last apply back, an earlier one counts.
const maxMarks = 8

// remember notes what a branch is about to get. It is done before: a mark that the branch doesn't get to is passed over, and a
// bookmark that has moved, but isn't known for the one, would no longer be found where the work began.
func (s *Session) remember(ctx context.Context, branch string, m mark) error {
	return s.update(ctx, func(state *state) {
		marks := slices.DeleteFunc(state.Brought[branch], func(old mark) bool { return old.Work == m.Work && old.After == m.After })
		marks = append([]mark{m}, marks...)
		if state.Brought == nil {
			state.Brought = make(map[string][]mark)
		}
		state.Brought[branch] = marks[:min(len(marks), maxMarks)]
		if s.subject.Workspace.Repository.Kind == forage.RepositoryJJ {
			state.Bookmark = branch
		}
	})
}

// withdraw takes a mark back: the branch didn't get it, and the bookmark is what it was.
func (s *Session) withdraw(ctx context.Context, branch string, m mark, bookmark string) error {
	return s.update(context.WithoutCancel(ctx), func(state *state) {
		state.Bookmark = bookmark
		state.Brought[branch] = slices.DeleteFunc(state.Brought[branch], func(old mark) bool { return old == m })
	})
}

// findBase finds the base: where the work and the user's branch part. By history, that is their common commit. Where the branch got
// more than history says, it is what it got.
func (s *Session) findBase(ctx context.Context) error {
	s.Base, s.mark = s.subject.Workspace.Base, nil
	theirs, branch := s.at, s.branch()
	if theirs == "" && s.source != nil { // a branch that is to be made
		var err error
		if theirs, err = s.branchAt(ctx, s.source.Head); err != nil {
			return err
		}
	}
	if theirs == "" || s.commit(ctx, s.staging, theirs) == "" {
		return nil
	}
	if s.tip != "" {
		common, err := s.staging.Line(ctx, "merge-base", theirs, s.tip)
		if err == nil && common != "" && (s.Base == "" || s.isAncestor(ctx, s.Base, common)) {
			s.Base = common
		} // no common commit: the base stays
	}
	if s.at == "" {
		return nil
	}
	if m := s.lastMark(ctx, s.at, branch); m != nil {
		return s.baseOn(ctx, *m)
	}
	return nil
}

// lastMark is the last that a branch of the user's has: its own, or a later one of another branch that it was made from, or that was
// merged into it; nil: none.
func (s *Session) lastMark(ctx context.Context, theirs, branch string) (last *mark) {
	own := s.state.Brought[branch]
	if at := slices.IndexFunc(own, func(m mark) bool { return s.has(ctx, theirs, m) }); at >= 0 {
		last = &own[at]
	}
	for _, name := range slices.Sorted(maps.Keys(s.state.Brought)) {
		for _, m := range s.state.Brought[name] {
			later := last == nil || m.After != last.After && s.isAncestor(ctx, last.After, m.After)
			if name != branch && later && s.isAncestor(ctx, m.After, theirs) && s.complete(ctx, theirs, m) {
				last = &m
			}
		}
	}
	return last
}

// baseOn has the base be what the user's branch got.
func (s *Session) baseOn(ctx context.Context, m mark) error {
	switch {
	case s.tip != "" && s.isAncestor(ctx, m.After, s.tip), s.Base != "" && s.isAncestor(ctx, m.Work, s.Base):
		return nil // the work goes on from there: it is in the history
	case s.Base == "" || s.isAncestor(ctx, s.Base, m.Work):
		s.Base, s.mark = m.Work, &m
		return nil
	}
	s.mark = &m
	// The work took over something of the user's since: the base has both.
	tree, conflicts, err := s.mergeTree(ctx, s.Base, m.Work)
	if err != nil || len(conflicts) > 0 {
		return err
	}
	s.Base, err = s.commitTree(ctx, identity(Options{}), tree, "", s.Base, m.Work)
	return err
}

// has says whether a branch of the user's has what a mark says, as it was or rewritten: then what is not as it was is the user's doing.
// Where the user took it back from the branch's history, it hasn't.
func (s *Session) has(ctx context.Context, theirs string, m mark) bool {
	if !s.isAncestor(ctx, m.After, theirs) && !s.contains(ctx, theirs, m.Work) && !s.rewritten(ctx, theirs, m) {
		return false
	}
	return s.complete(ctx, theirs, m)
}

// complete says whether all of what was brought is still there: what the user rewrote may have been collected since.
func (s *Session) complete(ctx context.Context, theirs string, m mark) bool {
	_, err := s.staging.Git(ctx, gitrepo.Call{Args: []string{"rev-list", "--objects", "--quiet", m.Work, "^" + theirs, "--"}})
	return err == nil
}

// contains says whether nothing would change if the work came once more.
func (s *Session) contains(ctx context.Context, theirs, work string) bool {
	tree, conflicts, err := s.mergeTree(ctx, theirs, work)
	if err != nil || len(conflicts) > 0 {
		return false
	}
	same, err := s.treeOf(ctx, theirs)
	return err == nil && tree == same
}

// maxRewritten bounds in how many commits one is looked for that was rewritten.
const maxRewritten = 10_000

// rewritten says whether the user's branch has what was brought as another commit, of the same author and moment and with some of the
// same files: what git commit --amend, rebase and cherry-pick leave of it.
func (s *Session) rewritten(ctx context.Context, theirs string, m mark) bool {
	for _, brought := range []string{m.After, m.Work} {
		who, err := s.staging.Line(ctx, "log", "-1", "--format="+authorFormat, brought, "--")
		if err != nil {
			continue
		}
		if others := s.authored(ctx, who, brought, "^"+theirs); len(others) != 1 {
			continue // several of one moment can't be told apart
		}
		for _, id := range s.authored(ctx, who, theirs, "^"+brought) {
			if len(gitrepo.InBoth(s.touched(ctx, id), s.touched(ctx, brought))) > 0 {
				return true
			}
		}
	}
	return false
}

const authorFormat = "%at %ae %an"

// authored are the commits of a range that are of this author and moment.
func (s *Session) authored(ctx context.Context, who string, commits ...string) (ids []string) {
	args := append([]string{"log", "-z", "--format=%H " + authorFormat, fmt.Sprintf("--max-count=%d", maxRewritten)}, commits...)
	list, err := s.staging.Git(ctx, gitrepo.Call{Args: append(args, "--")})
	if err != nil {
		return nil
	}
	for entry := range strings.SplitSeq(string(list), "\x00") {
		if id, by, _ := strings.Cut(entry, " "); strings.TrimSpace(by) == who {
			ids = append(ids, id)
		}
	}
	return ids
}

// touched are the files that a commit changed.
func (s *Session) touched(ctx context.Context, commit string) []string {
	list, err := s.staging.Git(ctx, gitrepo.Call{Args: []string{"diff-tree", "--root", "-m", "-r", "-z", "--no-commit-id", "--name-only", commit}, Output: maxList})
	if err != nil || len(list) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
}

// merge brings the work together with the user's branch, from the base that the mark says. It refuses where they conflict.
func (s *Session) merge(ctx context.Context, ours, work string) (tree string, err error) {
	from := ours
	if s.mark != nil { // git finds the base by history, so history has to say it
		if ours, err = s.descend(ctx, ours); err != nil {
			return "", err
		}
		if work, err = s.descend(ctx, work); err != nil {
			return "", err
		}
	}
	tree, conflicts, err := s.mergeTree(ctx, ours, work)
	if err != nil || len(conflicts) == 0 {
		return tree, err
	}
	return "", s.conflict(from, conflicts)
}

// descend is a commit with the same files that has, of the mark, the work in its history.
func (s *Session) descend(ctx context.Context, commit string) (string, error) {
	if s.mark == nil || s.isAncestor(ctx, s.mark.Work, commit) {
		return commit, nil
	}
	tree, err := s.treeOf(ctx, commit)
	if err != nil {
		return "", err
	}
	return s.commitTree(ctx, identity(Options{}), tree, "", commit, s.mark.Work)
}

// branch is the branch of the user's that the work is compared with.
func (s *Session) branch() string {
	switch {
	case s.into != "":
		return s.into
	case s.subject.Workspace.Repository.Kind == forage.RepositoryJJ:
		return s.state.Bookmark
	case s.source != nil:
		return s.source.Head
	}
	return ""
}
