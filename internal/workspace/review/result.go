package review

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"forage"
	"forage/internal/term"
	"forage/internal/workspace/gitrepo"
)

// result is what a branch becomes.
type result struct {
	commit      string
	commits     int
	merged      bool
	uncommitted string // the commit that was made of what had none
	work, tip   string // see mark
}

func (r result) mark(after string) mark { return mark{Work: r.work, Tip: r.tip, After: after} }

// result makes the commit that the branch is to be, in staging.
func (s *Session) result(ctx context.Context, t *target, o Options) (result, error) {
	who := identity(o)
	if len(o.Paths) > 0 {
		return s.selected(ctx, t, o.Paths, who)
	}
	r := result{commit: s.tip, commits: s.CommitsCount, tip: s.tip}
	// In the user's own folder no file is uncommitted work of the sandbox's: it may as well be the user's.
	if !t.direct {
		if err := s.commitRest(ctx, t, &r, who); err != nil {
			return r, err
		}
	}
	return s.joined(ctx, t, r, who)
}

// commitRest makes a commit of what is not committed, and finds the one that stands for all of the work.
func (s *Session) commitRest(ctx context.Context, t *target, r *result, who []string) error {
	committed, err := s.treeOf(ctx, s.tip)
	if err != nil {
		return err
	}
	had := t.commit != "" && s.tip != "" && s.isAncestor(ctx, s.tip, t.commit)
	forward := t.commit == "" || s.tip != "" && s.isAncestor(ctx, t.commit, s.tip)
	if len(s.Uncommitted) > 0 || len(s.Changes) > 0 && had || committed != s.Tree && forward {
		if s.apart != "" { // it would take back what the commits did
			return forage.WithHint(forage.Errorf(forage.ErrRefused, "%s", s.apart),
				"inside, end the rebase, or `git merge "+s.Branch+"` brings the two together, or `git switch "+s.Branch+"` goes back; --paths chooses files")
		}
		parent := s.tip
		if s.mark != nil && s.mark.Tip == s.tip && s.isAncestor(ctx, s.mark.Work, t.commit) {
			parent = s.mark.Work // of what was uncommitted the last time the user has this already
		}
		if r.commit, err = s.commitTree(ctx, who, s.Tree, s.subject.Sandbox+": uncommitted work", parent); err != nil {
			return err
		}
		r.uncommitted, committed = r.commit, s.Tree
	}
	r.work = r.commit
	if committed != s.Tree { // of what is not committed the user has some already
		r.work, err = s.commitTree(ctx, who, s.Tree, "", r.commit)
	}
	return err
}

// joined brings a result together with where the branch is.
func (s *Session) joined(ctx context.Context, t *target, r result, who []string) (result, error) {
	if r.work == "" {
		r.work = r.commit
	}
	switch {
	case t.commit == "" || r.commit != "" && s.isAncestor(ctx, t.commit, r.commit):
		return r, nil
	case r.commit == "" || s.isAncestor(ctx, r.commit, t.commit):
		r.commit = t.commit
		return r, nil
	case t.direct && t.checkedOut:
		return r, forage.WithHint(
			forage.Errorf(forage.ErrRefused, "%s has moved since the sandbox began: its commits are no continuation of it", t.branch),
			"merge them yourself with `git merge "+s.Branch+"`, or name another branch with --into")
	}
	var err error
	if r.work, err = s.descend(ctx, r.work); err != nil {
		return r, err
	}
	tree, err := s.merge(ctx, t.commit, r.work)
	if err != nil {
		return r, err
	}
	same, err := s.treeOf(ctx, t.commit)
	if err != nil {
		return r, err
	}
	if tree == same && (s.tip == "" || s.isAncestor(ctx, s.tip, t.commit)) {
		r.commit = t.commit // the same changes are there
		return r, nil
	}
	r.merged = true
	r.commit, err = s.commitTree(ctx, who, tree, fmt.Sprintf("Merge the work of %s into %s", s.subject.Sandbox, t.branch), t.commit, r.commit)
	return r, err
}

// selected makes one commit of the chosen files on top of the branch.
func (s *Session) selected(ctx context.Context, t *target, paths, who []string) (r result, err error) {
	tree, err := s.selectTree(ctx, paths, t.direct)
	if err != nil {
		return r, err
	}
	if r.commit = t.commit; tree == s.base {
		return r, nil
	}
	title := term.Escape(s.subject.Sandbox + ": " + strings.Join(paths, ", "))
	if len(title) > 70 {
		title = fmt.Sprintf("%s: %d paths", s.subject.Sandbox, len(paths))
	}
	if r.commit, err = s.commitTree(ctx, who, tree, title, s.Base); err != nil {
		return r, err
	}
	r.work = r.commit
	if t.commit == s.Base || t.commit == "" {
		return r, nil
	}
	if tree, err = s.merge(ctx, t.commit, r.work); err != nil {
		return r, err
	}
	r.commit = t.commit
	if same, err := s.treeOf(ctx, t.commit); err != nil || same == tree {
		return r, err
	}
	r.commit, err = s.commitTree(ctx, who, tree, title, t.commit)
	return r, err
}

// selectTree is the base with what was done to the chosen files. committed: what has no commit is no part of it.
func (s *Session) selectTree(ctx context.Context, paths []string, committed bool) (string, error) {
	to := s.Tree
	if committed {
		var err error
		if to, err = s.treeOf(ctx, s.tip); err != nil {
			return "", err
		}
	}
	changes, err := s.changes(ctx, s.base, to, false)
	if err != nil {
		return "", err
	}
	used := make([]bool, len(paths))
	choose := func(c Change) (chosen bool) {
		for i, path := range paths {
			if c.Path == path || strings.HasPrefix(c.Path, path+"/") || path == "." {
				used[i], chosen = true, true
			}
		}
		return chosen
	}
	var entries, added strings.Builder
	for _, c := range changes {
		switch {
		case !choose(c):
		case c.NewMode == 0:
			fmt.Fprintf(&entries, "0 %s\t%s\x00", c.newID, c.Path)
		default:
			fmt.Fprintf(&added, "%o %s\t%s\x00", c.NewMode, c.newID, c.Path)
		}
	}
	if slices.Contains(used, false) { // the branch may have got them already
		all, err := s.changesSinceStart(ctx, to)
		if err != nil {
			return "", err
		}
		for _, c := range all {
			choose(c)
		}
	}
	if i := slices.Index(used, false); i >= 0 {
		return "", forage.WithHint(
			forage.Errorf(forage.ErrUsage, "nothing was changed at %s", term.Escape(paths[i])),
			"`forage-ctl diff "+s.subject.Sandbox+" --stat` lists what was; paths are seen from the root of the repository")
	}
	index := s.staging.Dir + "/select.index"
	for _, call := range []gitrepo.Call{
		{Args: []string{"read-tree", s.base}},
		{Args: []string{"update-index", "-z", "--add", "--replace", "--index-info"}, Stdin: []byte(entries.String() + added.String())},
	} {
		call.Index = index
		if _, err := s.staging.Git(ctx, call); err != nil {
			return "", err
		}
	}
	tree, err := s.staging.Git(ctx, gitrepo.Call{Args: []string{"write-tree"}, Index: index})
	return strings.TrimSpace(string(tree)), err
}

// changesSinceStart are the files that differ from where the work began.
func (s *Session) changesSinceStart(ctx context.Context, to string) ([]Change, error) {
	if s.plain != nil {
		return nil, nil
	}
	start, err := s.treeOf(ctx, s.subject.Workspace.Base)
	if err != nil {
		return nil, err
	}
	return s.changes(ctx, start, to, false)
}

func identity(o Options) []string {
	name, email := o.Name, o.Email
	if name == "" {
		name = "forage"
	}
	if email == "" {
		email = "forage@localhost"
	}
	return []string{"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + email, "GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + email}
}

func (s *Session) commitTree(ctx context.Context, who []string, tree, message string, parents ...string) (string, error) {
	args := []string{"commit-tree", tree, "-F", "-"}
	for _, parent := range parents {
		if parent != "" {
			args = append(args, "-p", parent)
		}
	}
	id, err := s.staging.Git(ctx, gitrepo.Call{Args: args, Stdin: []byte(message + "\n"), Env: who})
	return strings.TrimSpace(string(id)), err
}

// mergeTree merges two commits without any working folder: git-merge-tree(1). Where they conflict it says in which files.
func (s *Session) mergeTree(ctx context.Context, ours, theirs string) (tree string, conflicts []string, err error) {
	out, err := s.staging.Git(ctx, gitrepo.Call{Args: []string{"merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs}})
	parts := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	if err != nil && len(parts) < 2 { // it didn't get as far as files
		return "", nil, forage.Errorf(forage.ErrRefused, "merging: %w", err)
	}
	return parts[0], parts[1:], nil
}

// conflict says which files conflict with those of a commit of the user's.
func (s *Session) conflict(ours string, paths []string) error {
	for i, path := range paths {
		paths[i] = term.Escape(path)
	}
	const most = 20
	names := strings.Join(paths[:min(len(paths), most)], ", ")
	if more := len(paths) - most; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	rebase := "have the agent rebase its work"
	if w := s.subject.Workspace; w.Repository != nil && w.Repository.Kind == forage.RepositoryGit {
		rebase += " with `git rebase " + ours[:min(len(ours), 12)] + "`" // which is found inside by its id: the branches there are older
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "these files conflict: %s", names),
		rebase+", apply it --into a branch of its own and merge that, or choose --paths")
}
