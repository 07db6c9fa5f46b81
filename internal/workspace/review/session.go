package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/jjrepo"
)

// Subject is one part of a sandbox's workspace.
type Subject struct {
	Sandbox   string
	Workspace forage.Workspace
	Places    workspace.Places
	// Git is the user's own configuration, which has a say in how line ends are written.
	Git gitrepo.UserConfig
}

// folder is where what a review is made of is kept between calls: an index, objects, what was shown.
func (s Subject) folder() string {
	return s.Places.Repository(s.Sandbox, s.part()) + ".review"
}

func (s Subject) part() string {
	if s.Workspace.Name == "" {
		return workspace.Main
	}
	return s.Workspace.Name
}

// repository is the user's folder that the work is brought to.
func (s Subject) repository() string {
	if s.direct() {
		return s.Workspace.Path
	}
	return s.Workspace.Source
}

// direct says whether that folder is the one that the sandbox works in.
func (s Subject) direct() bool { return s.Workspace.Mode == forage.WorkspaceDirect }

// lock keeps others out of the folder.
func (s Subject) lock(ctx context.Context) (unlock func(), err error) {
	return workspace.Lock(ctx, filepath.Join(s.folder(), "lock"))
}

// Session is a review and what it was made from. Commits have to be imported before: workspace.Provider.Update.
type Session struct {
	Review
	subject  Subject
	store    *gitrepo.Repository // which has the commits
	staging  *gitrepo.Shadow     // over store
	source   *gitrepo.Repository // the user's; nil: see noSource
	noSource error               // why there is none: it is gone, or at a URL
	tip      string              // the commit that was imported last
	into     string              // the branch of the user's that the work is compared with; "" is the one that is checked out
	at       string              // its commit, or of the bookmark to which the last apply went; "": there is none
	base     string              // the tree that the work is compared with: of Base, with what earlier applies brought
	mixed    bool                // base is not the tree of Base
	brought  []string            // commits whose work the branch has: its own, and tips that were applied as a whole
	all      string              // the last tip that was applied as a whole, if the branch has it
	onto     string              // a commit of what was not committed at the last apply, if the branch has it and nothing was committed since
	work     string              // the tree that apply brings: Tree, but for the user's own folder, of which only commits come
	state    state
	unsigned string   // why a commit is not signed that should be
	named    []string // files that count although a new rule ignores them
	apart    string   // a note, if the files are of another commit than the tip
	opened   []func() error
	lines    map[string]string      // what git said of objects, which don't change: see line
	compared map[[2]string][]Change // trees
}

// Open reviews a part. Close it.
func Open(ctx context.Context, subject Subject) (_ *Session, err error) {
	w := subject.Workspace
	if w.Repository == nil {
		return nil, forage.WithHint(
			forage.Errorf(forage.ErrUnsupported, "%s has no repository: nothing says what its files were before", w.Path),
			"run `git init` there and commit before the sandbox starts, or keep a snapshot with `forage-ctl snapshot`")
	}
	unlock, err := subject.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("reviewing %s: %w", subject.Sandbox, err)
	}
	defer unlock()
	s := &Session{
		Review: Review{Part: subject.part(), Branch: w.Branch, Changes: []Change{}}, subject: subject,
		lines: make(map[string]string), compared: make(map[[2]string][]Change),
	}
	if s.state, err = readState(subject.folder()); err != nil {
		return nil, err
	}
	if s.store, err = gitrepo.Open(ctx, w.Repository.Store); err != nil {
		return nil, gone(w.Repository.Store, err)
	}
	s.openSource(ctx)
	var others []string
	if s.source != nil && s.source.Common != s.store.Common { // a clone lacks what its source got since
		others = append(others, filepath.Join(s.source.Common, "objects"))
	}
	if s.staging, err = s.store.Staging(subject.Places.Scratch, filepath.Join(subject.folder(), "objects"), others...); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("reviewing %s: %w", subject.Sandbox, err), s.Close())
		}
	}()
	if w.Branch != "" {
		if s.tip, err = s.staging.Branch(ctx, gitrepo.TipRef(w)); err != nil {
			return nil, err
		}
	}
	s.tip = cmp.Or(s.tip, w.Base)
	tree, err := s.readFolder(ctx)
	if err != nil {
		return nil, err
	}
	if s.work = s.Tree; subject.direct() {
		if s.work, err = s.treeOf(ctx, s.tip); err != nil {
			return nil, err
		}
	}
	s.findApart()
	if last := s.state.bookmark(); last != "" && w.Repository.Kind == forage.RepositoryJJ {
		var refs gitrepo.Refs
		_, refs, err = s.openJJ(ctx)
		s.at = refs.Values["refs/heads/"+last]
	} else if s.source != nil {
		s.at, err = s.branchAt(ctx, s.source.Head)
	}
	if err != nil {
		return nil, err
	}
	if err := s.against(ctx); err != nil {
		return nil, err
	}
	return s, s.lookForFindings(ctx, tree)
}

// Close removes what lives no longer than the session.
func (s *Session) Close() error {
	failed := []error{s.staging.Close()}
	for _, closeIt := range s.opened {
		failed = append(failed, closeIt())
	}
	return errors.Join(failed...)
}

// gone says that a repository isn't where it was.
func gone(path string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, gitrepo.ErrNoRepository) {
		return err
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "the repository %s is not there any more: %w", path, err),
		"move it back to where it was; nothing of the sandbox's work is lost meanwhile")
}

// openSource finds the user's repository. That it can't be opened matters to Apply alone, which says so.
func (s *Session) openSource(ctx context.Context) {
	w, path := s.subject.Workspace, s.subject.repository()
	switch {
	case w.Repository.Kind != forage.RepositoryGit: // jj's own, which Apply opens
	case !filepath.IsAbs(path):
		s.noSource = forage.WithHint(
			forage.Errorf(forage.ErrRefused, "the clone is of a URL, %s: what is at a URL gets commits by a push of your own", path),
			"in a repository of yours: git fetch "+w.Repository.Store+" "+w.Branch)
	default:
		var err error
		if s.source, err = gitrepo.Open(ctx, path); err != nil {
			s.noSource = gone(path, err)
			return
		}
		s.source.LineEnds(ctx, s.subject.Git)
	}
}

// findApart notes what is checked out inside where that is not the tip.
func (s *Session) findApart() {
	w := s.subject.Workspace
	if w.Repository.Kind != forage.RepositoryGit {
		return
	}
	of, err := gitrepo.FilesOf(w)
	if err == nil && of != "" {
		s.apart = of + " is checked out inside, which " + w.Branch + " does not follow, or a rebase is under way there: what is different in its files is shown as not committed"
		s.Notes = append(s.Notes, s.apart)
	}
}

// has says whether a commit is there.
func (s *Session) has(ctx context.Context, commit string) bool {
	if commit == "" {
		return false
	}
	_, err := s.treeOf(ctx, commit)
	return err == nil
}

// branchAt is the commit of a branch of the user's; "" when there is none.
func (s *Session) branchAt(ctx context.Context, branch string) (string, error) {
	if branch == "" { // nothing is checked out
		return "", nil
	}
	return (&gitrepo.Shadow{Repository: s.source}).Branch(ctx, "refs/heads/"+branch) // which starts no git
}

// aim compares the work with another branch of the user's, or with the same one if that has moved meanwhile.
func (s *Session) aim(ctx context.Context, branch, at string) error {
	if s.into == branch && s.at == at {
		return nil
	}
	s.into, s.at = branch, at
	return s.against(ctx)
}

// against compares the work with what the user's branch has of it.
func (s *Session) against(ctx context.Context) (err error) {
	if err := s.findBase(ctx); err != nil {
		return err
	}
	s.Commits, s.CommitsCount = nil, 0
	if s.tip != "" && s.tip != s.Base {
		revisions := []string{s.tip}
		for _, not := range append([]string{s.Base}, s.brought...) {
			if not != "" {
				revisions = append(revisions, "^"+not)
			}
		}
		if s.Commits, s.CommitsCount, err = s.staging.Commits(ctx, append(revisions, "--")); err != nil {
			return err
		}
		slices.Reverse(s.Commits)
	}
	return s.compare(ctx)
}

func (s *Session) isAncestor(ctx context.Context, ancestor, of string) bool {
	if ancestor == of {
		return true
	}
	_, err := s.line(ctx, "merge-base", "--is-ancestor", ancestor, of)
	return err == nil
}

// line asks git about commits by their IDs, each thing once.
func (s *Session) line(ctx context.Context, args ...string) (string, error) {
	asked := strings.Join(args, " ")
	if line, known := s.lines[asked]; known {
		return line, nil
	}
	line, err := s.staging.Line(ctx, args...)
	if err == nil {
		s.lines[asked] = line
	}
	return line, err
}

// readFolder makes the tree of the working folder.
func (s *Session) readFolder(ctx context.Context) (tree gitrepo.Tree, err error) {
	committed, err := s.treeOf(ctx, s.tip)
	if err != nil {
		return tree, err
	}
	if jjrepo.Has(s.subject.Workspace.Repository) { // what is there is the user's: the sandbox sees another in its place
		if err := s.staging.Ignore("/.jj/"); err != nil {
			return tree, err
		}
	}
	tree, err = s.staging.WriteTree(ctx, gitrepo.Folder{
		Path: s.subject.Workspace.Path, Base: s.tip,
		Index: filepath.Join(s.subject.folder(), "index"), Seed: s.store.IndexOf(ctx, s.subject.Workspace.Path),
		Rules: s.staging.Rules(ctx, s.subject.Workspace), Named: s.named,
	})
	if errors.Is(err, fs.ErrNotExist) {
		tree, err = gitrepo.Tree{ID: committed}, nil
		s.Notes = append(s.Notes, "the working folder "+s.subject.Workspace.Path+" is gone: only commits are left")
	}
	s.Tree, s.Left = tree.ID, tree.Left
	for _, nested := range tree.Nested {
		s.Left = append(s.Left, gitrepo.Left{Path: nested, Why: "a repository of its own, with " + gitrepo.CountFiles(filepath.Join(s.subject.Workspace.Path, nested)) +
			": without the .git in it, its files are part of the work"})
	}
	return tree, err
}

// compare finds what is different, and what of that no commit has.
func (s *Session) compare(ctx context.Context) (err error) {
	if s.Changes, err = s.changes(ctx, s.base, s.Tree, true); err != nil {
		return err
	}
	s.Uncommitted = nil
	committed, err := s.treeOf(ctx, s.tip)
	if err != nil {
		return err
	}
	changes, reviewed := s.Changes, make(map[string]bool)
	for _, c := range s.Changes {
		reviewed[c.Path], reviewed[c.OldPath] = true, true
	}
	if s.onto == "" { // else no commit has any of them
		if changes, err = s.changes(ctx, committed, s.Tree, false); err != nil {
			return err
		}
	}
	for _, c := range changes {
		if !s.mixed || reviewed[c.Path] { // else the user has it from an earlier apply
			s.Uncommitted = append(s.Uncommitted, c.Path)
		}
	}
	return nil
}

func (s *Session) treeOf(ctx context.Context, commit string) (string, error) {
	key := commit + "^{tree}"
	if tree, known := s.lines[key]; known {
		return tree, nil
	}
	tree, err := treeOf(ctx, s.staging, commit)
	if err == nil {
		s.lines[key] = tree
	}
	return tree, err
}

// treeOf is the tree of a commit; that of "" is empty.
func treeOf(ctx context.Context, in *gitrepo.Shadow, commit string) (string, error) {
	if commit == "" {
		tree, err := in.Git(ctx, gitrepo.Call{Args: []string{"mktree"}, Stdin: []byte{}})
		return strings.TrimSpace(string(tree)), err
	}
	tree, err := in.Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", commit+"^{tree}")
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", forage.WithHint(
			forage.Errorf(forage.ErrRefused, "the commit %s is not in %s any more", commit, in.Repository.Common),
			"get it back from where it was pushed to, or from the reflog")
	}
	return tree, nil
}
