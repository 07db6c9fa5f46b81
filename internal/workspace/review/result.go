package review

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"forage"
	"forage/internal/term"
)

// result is what a branch becomes.
type result struct {
	commit  string
	commits int
	merged  bool
	work    string // a commit of the files that are brought
	files   string // a tree: of the files, if they are not those of the commit
	all     bool   // nothing is left out
}

// mark is what is remembered of a result.
func (s *Session) mark(t *target, r result) mark {
	m := mark{Branch: t.branch, Work: r.work, Tip: s.tip, After: r.commit, All: s.all, Whole: r.all}
	if r.files != "" { // no commit has them
		m.After = ""
	}
	if r.all {
		m.All = s.tip
	}
	return m
}

// result makes the commit that the branch is to be, in staging.
func (s *Session) result(ctx context.Context, t *target, o Options) (result, error) {
	who := sync.OnceValue(func() identity { return s.identity(ctx, t.repo, o) }) // which is asked for where a commit is made
	if o.NoCommit {
		return s.uncommitted(ctx, t, o, who)
	}
	if o.selects() {
		return s.selected(ctx, t, o, who)
	}
	r := result{commit: s.tip, commits: s.CommitsCount, all: true}
	if err := s.commitRest(ctx, t, &r, who); err != nil {
		return r, err
	}
	return s.joined(ctx, t, r, who, s.mixed)
}

// uncommitted brings the commits to the branch, and the rest to the files of the user's folder alone.
func (s *Session) uncommitted(ctx context.Context, t *target, o Options, who func() identity) (result, error) {
	if t.folder() == "" {
		return result{}, forage.Errorf(forage.ErrUsage, "--no-commit is for a branch that is checked out in a folder of yours, and %s is not", t.branch)
	}
	o.NoCommit, o.DryRun = false, true // what is not to be a commit is not signed
	all, err := s.result(ctx, t, o)
	if err != nil || all.commit == t.commit {
		return all, err
	}
	files, err := s.treeOf(ctx, all.commit)
	if err != nil {
		return all, err
	}
	commits := result{commit: t.commit}
	if !o.selects() && s.tip != "" {
		if commits, err = s.joined(ctx, t, result{commit: s.tip, work: s.tip, commits: all.commits}, who, false); err != nil {
			return all, err
		}
	}
	committed, err := s.treeOf(ctx, commits.commit)
	if committed != files {
		commits.files = files
	}
	commits.work, commits.all = all.work, all.all
	return commits, err
}

// commitRest makes a commit of what is not committed, and finds the one that stands for all of the work.
func (s *Session) commitRest(ctx context.Context, t *target, r *result, who func() identity) error {
	committed, err := s.treeOf(ctx, s.tip)
	if err != nil {
		return err
	}
	if r.work = r.commit; committed == s.work && (s.onto == "" || len(s.Changes) == 0) {
		return nil
	}
	had := t.commit != "" && s.tip != "" && s.isAncestor(ctx, s.tip, t.commit)
	forward := t.commit == "" || s.tip != "" && s.isAncestor(ctx, t.commit, s.tip)
	if len(s.Uncommitted) == 0 && !(had && len(s.Changes) > 0) && !forward { // the user has it already
		r.work, err = s.commitTree(ctx, nobody, s.work, "", r.commit)
		return err
	}
	if s.apart != "" { // it would take back what the commits did
		return forage.WithHint(forage.Errorf(forage.ErrRefused, "%s", s.apart),
			"inside, end the rebase, or `git merge "+s.Branch+"` brings the two together, or `git switch "+s.Branch+"` goes back; --paths chooses files")
	}
	r.commit, err = s.commitTree(ctx, who(), s.work, s.subject.Sandbox+": uncommitted work", cmp.Or(s.onto, s.tip))
	r.work = r.commit
	return err
}

// joined brings a result together with where the branch is. mixed: what earlier applies brought counts as the base.
func (s *Session) joined(ctx context.Context, t *target, r result, who func() identity, mixed bool) (result, error) {
	switch {
	case t.commit == "" || r.commit != "" && s.isAncestor(ctx, t.commit, r.commit):
		return r, nil
	case r.commit == "" || s.isAncestor(ctx, r.commit, t.commit):
		r.commit, r.commits = t.commit, 0
		return r, nil
	case t.direct && t.checkedOut:
		return r, forage.WithHint(
			forage.Errorf(forage.ErrRefused, "%s has moved since the sandbox began: its commits are no continuation of it", t.branch),
			"merge them yourself with `git merge "+s.Branch+"`, or name another branch with --into")
	}
	tree, err := s.merge(ctx, t.commit, r.work, mixed)
	if err != nil {
		return r, err
	}
	same, err := s.treeOf(ctx, t.commit)
	if err != nil {
		return r, err
	}
	if tree == same { // the same changes are there: no empty merge
		r.commit = t.commit
		return r, nil
	}
	r.merged = true
	r.commit, err = s.commitTree(ctx, who(), tree, fmt.Sprintf("Merge the work of %s into %s", s.subject.Sandbox, t.branch), t.commit, r.commit)
	return r, err
}

// selected makes one commit of the chosen files on top of the branch. It has one parent: to git, the rest is not merged.
func (s *Session) selected(ctx context.Context, t *target, o Options, who func() identity) (r result, err error) {
	tree, paths, err := s.pickedTree(ctx, o)
	if err != nil {
		return r, err
	}
	r.all = tree == s.work
	if r.commit = t.commit; tree == s.base {
		return r, nil
	}
	title := term.Escape(s.subject.Sandbox + ": " + strings.Join(paths, ", "))
	if len(title) > 70 {
		title = fmt.Sprintf("%s: %d paths", s.subject.Sandbox, len(paths))
	}
	if r.work, err = s.commitTree(ctx, nobody, tree, "", s.Base); err != nil {
		return r, err
	}
	parent := cmp.Or(t.commit, s.Base)
	if tree, err = s.merge(ctx, parent, r.work, s.mixed); err != nil {
		return r, err
	}
	if same, err := s.treeOf(ctx, parent); err != nil || same == tree {
		return r, err
	}
	r.commit, err = s.commitTree(ctx, who(), tree, title, parent)
	return r, err
}

// selectTree is the base with what was done to the chosen files.
func (s *Session) selectTree(ctx context.Context, paths []string) (string, error) {
	changes, err := s.changes(ctx, s.base, s.work, false)
	if err != nil {
		return "", err
	}
	missing := func(path string) bool {
		return !slices.ContainsFunc(changes, func(c Change) bool { return below(c.Path, path) })
	}
	tree, err := s.edit(ctx, s.base, slices.DeleteFunc(slices.Clone(changes), func(c Change) bool {
		return !slices.ContainsFunc(paths, func(path string) bool { return below(c.Path, path) })
	}))
	if err == nil && slices.ContainsFunc(paths, missing) { // the branch may have got them already
		var start string
		if start, err = s.treeOf(ctx, s.subject.Workspace.Base); err == nil {
			more, failed := s.changes(ctx, start, s.work, false)
			changes, err = append(changes, more...), failed
		}
	}
	if i := slices.IndexFunc(paths, missing); err == nil && i >= 0 {
		return "", forage.WithHint(
			forage.Errorf(forage.ErrUsage, "nothing was changed at %s", term.Escape(paths[i])),
			"`forage-ctl diff "+s.subject.Sandbox+" --stat` lists what was; paths are seen from the root of the repository")
	}
	return tree, err
}

// below says whether a file is what a user names, or in it.
func below(file, path string) bool {
	return file == path || strings.HasPrefix(file, path+"/") || path == "."
}

// conflict says which files conflict with those of a commit of the user's.
func (s *Session) conflict(ours string, paths []string) error {
	rebase := "have the agent rebase its work"
	if w := s.subject.Workspace; w.Repository != nil && w.Repository.Kind == forage.RepositoryGit {
		rebase += " with `git rebase " + ours[:min(len(ours), 12)] + "`" // which is found inside by its id: the branches there are older
	} else if w.Repository != nil {
		rebase = "bring the two together with `jj new " + term.Escape(cmp.Or(s.into, s.state.bookmark(), "main")) + " " + s.Branch + "`, and resolve what conflicts there"
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "these files conflict: %s", term.Names(paths)),
		rebase+", apply it --into a branch of its own and merge that, or choose --paths")
}
