package review

import (
	"context"
	"errors"
	"fmt"
	gopath "path"
	"slices"
	"strings"

	"forage"
	"forage/internal/term"
	"forage/internal/workspace/gitrepo"
)

// Options say what Apply brings, and where.
type Options struct {
	Into  string   // branch; "" is the one that is checked out in the user's folder
	Paths []string // only these files and folders, as one commit; none: everything
	// Name and Email are who makes the commits that Apply adds.
	Name, Email string
	// DryRun: everything is checked, and nothing is done that git shows: objects come to the repository, which
	// git collects if nothing comes to need them.
	DryRun bool
	// Quiet refuses, if it has to, that files are written below a folder of the user's; nil: it never has to.
	Quiet func(folder string) error
}

// Applied is what Apply did.
type Applied struct {
	Part   string `json:"part"`
	Branch string `json:"branch"`
	Before string `json:"before,omitempty"` // where Branch was; "": it is new
	After  string `json:"after"`            // where it is. Equal: there was nothing to bring
	// Commits are how many of the work's own were brought; one more was made for what was not committed, or was selected.
	Commits int      `json:"commits"`
	Merged  bool     `json:"merged,omitempty"` // a merge was necessary
	Files   int      `json:"files"`            // that differ between Before and After
	Folder  string   `json:"folder,omitempty"` // whose files were brought up to date
	Notes   []string `json:"notes,omitempty"`
}

// Changes says whether there was anything to bring.
func (a Applied) Changes() bool { return a.After != a.Before }

// Apply brings the work into the user's repository, or refuses with ErrRefused and leaves the repository as it was.
//
// The order is what makes a kill at any moment harmless. Objects first, which nobody sees. Then the files of the user's
// folder, if the branch is checked out there, under a note in our own folder: whoever applies the next time takes an
// interrupted try back. Then, one after the other and each in one rename, the index and the branch.
func (s *Session) Apply(ctx context.Context, o Options) (done Applied, err error) {
	done.Part = s.Part
	o.Paths = clean(o.Paths)
	if len(s.Changes) == 0 && s.CommitsCount == 0 {
		return done, nil
	}
	if s.plain != nil {
		return s.applyPlain(ctx, o)
	}
	if s.subject.Workspace.Repository.Kind == forage.RepositoryJJ {
		return s.applyJJ(ctx, o)
	}
	t, err := s.target(ctx, o.Into)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if folder := t.folder(); folder != "" && o.Quiet != nil {
		if err := o.Quiet(folder); err != nil {
			return done, err
		}
	}
	if err := t.recoverApply(ctx, s); err != nil {
		return done, err
	}
	done.Branch, done.Before, done.After = t.branch, t.commit, t.commit
	result, err := s.result(ctx, t, o)
	if err != nil {
		return done, err
	}
	if result.commit == t.commit {
		return done, s.there(t, o)
	}
	changes, err := s.accept(ctx, t, result)
	if err != nil {
		return done, err
	}
	done.After, done.Commits, done.Merged, done.Files, done.Folder = result.commit, result.commits, result.merged, len(changes), t.folder()
	if done.Notes, err = s.unfiltered(ctx, t, result, changes); err != nil {
		return done, err
	}
	if err := s.bring(ctx, t, result.commit); err != nil {
		return done, err
	}
	if err := t.install(ctx, s, result.commit, o.DryRun); err != nil || o.DryRun {
		return done, err
	}
	return done, s.brought(result)
}

// there remembers that the branch has what is not committed already, though no apply brought it.
func (s *Session) there(t *target, o Options) error {
	if o.DryRun || len(o.Paths) > 0 || len(s.Uncommitted) == 0 || t.commit == "" {
		return nil
	}
	return gitrepo.NoteTaken(s.subject.Workspace, t.commit)
}

// brought remembers what the user has got.
func (s *Session) brought(r result) error {
	if r.uncommitted == "" {
		return s.saveState()
	}
	s.state.Applied, s.state.AppliedTip = r.uncommitted, s.tip
	return errors.Join(s.saveState(), gitrepo.NoteTaken(s.subject.Workspace, r.uncommitted))
}

// clean takes paths as people write them, dir/ and ./dir among them. Nothing stays nothing, which is not the whole tree.
func clean(paths []string) []string {
	paths = slices.Clone(paths)
	for i, path := range paths {
		if path != "" {
			paths[i] = gopath.Clean(path)
		}
	}
	return paths
}

// result is what a branch becomes.
type result struct {
	commit      string
	commits     int
	merged      bool
	uncommitted string // the commit that was made of what had none
}

// result makes the commit that the branch is to be, in staging.
func (s *Session) result(ctx context.Context, t *target, o Options) (result, error) {
	who := identity(o)
	if len(o.Paths) > 0 {
		return s.selected(ctx, t, o.Paths, who)
	}
	r := result{commit: s.tip, commits: s.CommitsCount}
	// In the user's own folder no file is uncommitted work of the sandbox's: it may as well be the user's.
	if len(s.Uncommitted) > 0 && !t.direct {
		if s.apart != "" { // it would take back what the commits did
			return r, forage.WithHint(forage.Errorf(forage.ErrRefused, "%s", s.apart),
				"inside, end the rebase, or `git merge "+s.Branch+"` brings the two together, or `git switch "+s.Branch+"` goes back; --paths chooses files")
		}
		parent := s.tip
		if s.state.AppliedTip == s.tip && s.Base == s.state.Applied && s.Base != "" {
			parent = s.Base // of what was uncommitted the last time the user has this already
		}
		commit, err := s.commitTree(ctx, who, s.Tree, s.subject.Sandbox+": uncommitted work", parent)
		if err != nil {
			return r, err
		}
		r.commit, r.uncommitted = commit, commit
	}
	return s.joined(ctx, t, r, who)
}

// joined brings a result together with where the branch is.
func (s *Session) joined(ctx context.Context, t *target, r result, who []string) (result, error) {
	switch {
	case t.commit == "" || s.isAncestor(ctx, t.commit, r.commit):
		return r, nil
	case r.commit == "" || s.isAncestor(ctx, r.commit, t.commit):
		return result{commit: t.commit}, nil
	case t.direct && t.checkedOut:
		return r, forage.WithHint(
			forage.Errorf(forage.ErrRefused, "%s has moved since the sandbox began: its commits are no continuation of it", t.branch),
			"merge them yourself with `git merge "+s.Branch+"`, or name another branch with --into")
	}
	tree, err := s.mergeTree(ctx, t.commit, r.commit)
	if err != nil {
		return r, err
	}
	same, err := s.treeOf(ctx, t.commit)
	if err != nil {
		return r, err
	}
	if tree == same && (s.tip == "" || s.isAncestor(ctx, s.tip, t.commit)) {
		return result{commit: t.commit}, nil // the same changes are there
	}
	r.merged = true
	r.commit, err = s.commitTree(ctx, who, tree, fmt.Sprintf("Merge the work of %s into %s", s.subject.Sandbox, t.branch), t.commit, r.commit)
	return r, err
}

// selected makes one commit of the chosen files on top of the branch.
func (s *Session) selected(ctx context.Context, t *target, paths, who []string) (result, error) {
	tree, err := s.selectTree(ctx, paths, t.direct)
	if err != nil {
		return result{}, err
	}
	title := s.subject.Sandbox + ": " + strings.Join(paths, ", ")
	if len(title) > 70 {
		title = fmt.Sprintf("%s: %d paths", s.subject.Sandbox, len(paths))
	}
	parents := []string{s.Base}
	commit, err := s.commitTree(ctx, who, tree, title, parents...)
	if err != nil {
		return result{}, err
	}
	if t.commit == s.Base || t.commit == "" {
		return result{commit: commit}, nil
	}
	if tree, err = s.mergeTree(ctx, t.commit, commit); err != nil {
		return result{}, err
	}
	if same, err := s.treeOf(ctx, t.commit); err != nil || same == tree {
		return result{commit: t.commit}, err
	}
	commit, err = s.commitTree(ctx, who, tree, title, t.commit)
	return result{commit: commit}, err
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
	var entries strings.Builder
	var added strings.Builder
	for _, c := range changes {
		chosen := false
		for i, path := range paths {
			if c.Path == path || strings.HasPrefix(c.Path, path+"/") || path == "." {
				used[i], chosen = true, true
			}
		}
		switch {
		case !chosen:
		case c.NewMode == 0:
			fmt.Fprintf(&entries, "0 %s\t%s\x00", c.newID, c.Path)
		default:
			fmt.Fprintf(&added, "%o %s\t%s\x00", c.NewMode, c.newID, c.Path)
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

// mergeTree merges two commits without any working folder: git-merge-tree(1). It refuses where they conflict.
func (s *Session) mergeTree(ctx context.Context, ours, theirs string) (string, error) {
	out, err := s.staging.Git(ctx, gitrepo.Call{Args: []string{"merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs}})
	parts := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	if err == nil {
		return parts[0], nil
	}
	if len(parts) < 2 { // it didn't get as far as files
		return "", forage.Errorf(forage.ErrRefused, "merging: %w", err)
	}
	for i, path := range parts[1:] {
		parts[i+1] = term.Escape(path)
	}
	const most = 20
	names := strings.Join(parts[1:min(len(parts), most+1)], ", ")
	if more := len(parts) - 1 - most; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	rebase := "have the agent rebase its work"
	if w := s.subject.Workspace; w.Repository != nil && w.Repository.Kind == forage.RepositoryGit {
		rebase += " with `git rebase " + ours[:min(len(ours), 12)] + "`" // which is found inside by its id: the branches there are older
	}
	return "", forage.WithHint(
		forage.Errorf(forage.ErrRefused, "these files conflict: %s", names),
		rebase+", apply it --into a branch of its own and merge that, or choose --paths")
}
