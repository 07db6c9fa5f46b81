package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	gopath "path"
	"slices"

	"forage"
	"forage/internal/term"
	"forage/internal/workspace/gitrepo"
)

// Options say what Apply brings, and where.
type Options struct {
	Into  string   // branch; "" is the one that is checked out in the user's folder
	Paths []string // only these files and folders, as one commit; none: everything
	Pick  *Pick    // only what was shown and chosen of it, in the place of Paths
	// Name and Email are who makes the commits that Apply adds, where git doesn't know.
	Name, Email string
	DryRun      bool // everything is checked, and nothing is done
	NoCommit    bool // what is not committed stays so: it comes as changes in the user's folder
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
	Left    int      `json:"left,omitempty"`   // files that were left as changes in Folder, not committed
	Notes   []string `json:"notes,omitempty"`
}

// Changes says whether there was anything to bring.
func (a Applied) Changes() bool { return a.After != a.Before || a.Left > 0 }

// Apply brings the work into the user's repository, or refuses with ErrRefused and leaves the repository as it was.
func (s *Session) Apply(ctx context.Context, o Options) (done Applied, err error) {
	done, install, err := s.Prepare(ctx, o)
	if err != nil || install == nil {
		return done, err
	}
	return install(ctx)
}

// Install does what was prepared.
type Install func(context.Context) (Applied, error)

// Prepare is Apply but for the last step, which is what it returns; nil: there is nothing to do, or that was no more than a rehearsal.
//
// Objects come first, which nothing refers to. The rest is done under a journal: see installation.
func (s *Session) Prepare(ctx context.Context, o Options) (done Applied, install Install, err error) {
	done.Part, done.Notes = s.Part, s.leftOut()
	o.Paths = clean(o.Paths)
	if err := s.interrupted(); err != nil {
		return done, nil, err
	}
	if err := s.asShown(o.Pick); err != nil {
		return done, nil, err
	}
	if len(o.Paths) > 0 && len(s.Left) > 0 && !s.subject.direct() {
		s.named = o.Paths
		if _, err := s.readFolder(ctx); err != nil {
			return done, nil, err
		}
		s.work = s.Tree
		if err := s.against(ctx); err != nil {
			return done, nil, err
		}
	}
	find, aimed := s.target, true
	if s.subject.Workspace.Repository.Kind == forage.RepositoryJJ {
		find, aimed = s.jjTarget, o.Into == ""
	} else if s.source != nil {
		if err := s.aimAtBranch(ctx, o.Into); err != nil {
			return done, nil, err
		}
	}
	if aimed && s.nothing() && !s.toNewBranch(o) {
		if s.at != "" && !o.DryRun {
			err = gitrepo.NoteTaken(s.subject.Workspace, s.at, s.tip)
		}
		return done, nil, err
	}
	t, err := find(ctx, o.Into)
	if err != nil || s.nothing() && !s.toNewBranch(o) {
		return done, nil, err
	}
	if folder := t.folder(); folder != "" && o.Quiet != nil {
		if err := o.Quiet(folder); err != nil {
			return done, nil, err
		}
	}
	r, err := s.plan(ctx, t, o, &done)
	if err != nil || !done.Changes() {
		return done, nil, err
	}
	i := &installation{target: t, subject: s.subject, journal: journal{
		GitDir: t.repo.GitDir, Branch: t.branch, From: t.commit, To: r.commit, Mark: s.mark(t, r),
	}}
	if t.checkedOut {
		if i.Before, err = s.treeOf(ctx, t.commit); err == nil {
			i.After, err = s.treeOf(ctx, cmp.Or(r.files, r.commit))
		}
		if err == nil {
			err = i.rehearse(ctx)
		}
	}
	if err != nil || o.DryRun {
		return done, nil, err
	}
	if err := s.staging.Bring(ctx, t.repo, r.commit, t.commit, s.Base); err != nil {
		return done, nil, err
	}
	return done, func(ctx context.Context) (Applied, error) {
		if at, err := t.at(ctx); err != nil || at != t.commit { // another part of the workspace went there too
			return s.Apply(ctx, o)
		}
		return done, i.install(ctx)
	}, nil
}

// aimAtBranch compares the work with a branch of the user's git repository.
func (s *Session) aimAtBranch(ctx context.Context, into string) error {
	branch := cmp.Or(into, s.source.Head)
	if err := s.checkName(ctx, branch); err != nil {
		return err
	}
	at, err := s.branchAt(ctx, branch)
	if err != nil {
		return err
	}
	return s.aim(ctx, into, at)
}

// plan finds out what is to become of the branch, and what is to be said of it.
func (s *Session) plan(ctx context.Context, t *target, o Options, done *Applied) (result, error) {
	done.Branch, done.Before, done.After = t.branch, t.commit, t.commit
	result, err := s.result(ctx, t, o)
	if err != nil {
		return result, err
	}
	if result.commit == t.commit && result.files == "" {
		return result, s.there(ctx, t, o, result)
	}
	changes, err := s.accept(ctx, t, result)
	if err != nil {
		return result, err
	}
	done.After, done.Commits, done.Merged, done.Files, done.Folder = result.commit, result.commits, result.merged, len(changes), t.folder()
	if result.files != "" {
		left, err := s.paths(ctx, result.commit, result.files)
		if err != nil {
			return result, err
		}
		done.Left = len(left)
	}
	notes, err := s.filtered(ctx, t, result, changes)
	if s.unsigned != "" {
		notes = append(notes, fmt.Sprintf("not signed, as commit.gpgSign wants it: %s; `git commit --amend -S` signs the last commit", term.Escape(s.unsigned)))
	}
	done.Notes = append(notes, done.Notes...)
	return result, err
}

// leftOut says what is in the folder and is not brought.
func (s *Session) leftOut() []string {
	if len(s.Left) == 0 {
		return nil
	}
	var names []string
	for _, left := range s.Left {
		names = append(names, left.Path)
	}
	return []string{"left out: " + term.Names(names) + "; `forage-ctl diff " + s.subject.Sandbox + "` says why"}
}

// nothing says that there is nothing that the user's branch lacks.
func (s *Session) nothing() bool { return len(s.Changes) == 0 && s.CommitsCount == 0 }

// TakenOver notes what the user has, if a branch of the user's has all of the work by now: the one
// that is checked out, or one to which some of the work was applied. It says whether that is so.
func TakenOver(ctx context.Context, subject Subject) (_ bool, err error) {
	if state, err := readState(subject.folder()); err != nil || len(state.Applied) == 0 {
		return false, err
	}
	s, err := Open(ctx, subject)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.interrupted(); err != nil {
		return false, err
	}
	branches := []string{""}
	if s.source != nil {
		for _, m := range s.state.Applied {
			branches = append(branches, m.Branch)
		}
	}
	for _, branch := range branches {
		if branch != "" {
			if err := s.aimAtBranch(ctx, branch); err != nil {
				return false, err
			}
		}
		if s.at != "" && s.nothing() {
			return true, gitrepo.NoteTaken(subject.Workspace, s.at, s.tip)
		}
	}
	return false, nil
}

// toNewBranch says whether there is work for a branch that is to be made, though another branch has it all.
func (s *Session) toNewBranch(o Options) bool {
	return o.Into != "" && s.at == "" && s.tip != s.subject.Workspace.Base
}

// there remembers that the branch has it already, though no apply brought it.
func (s *Session) there(ctx context.Context, t *target, o Options, r result) error {
	if o.DryRun || t.commit == "" || r.work == "" {
		return nil
	}
	i := &installation{target: t, subject: s.subject, journal: journal{Mark: s.mark(t, r)}}
	return i.settle(ctx)
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
