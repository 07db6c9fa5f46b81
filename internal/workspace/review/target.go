package review

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"forage"
	"forage/internal/term"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// target is the branch that work is brought to.
type target struct {
	repo       *gitrepo.Repository // the user's
	shadow     *gitrepo.Shadow     // over repo: what it writes is the user's
	trial      *gitrepo.Shadow     // over repo and our staging: what it writes is nobody's
	branch     string
	commit     string // "": there is no such branch yet
	checkedOut bool   // in the user's folder
	direct     bool   // the user's folder is the workspace: its files are as they are to be
	sandbox    string
}

func (t *target) close() error { return errors.Join(t.shadow.Close(), t.trial.Close()) }

// openTarget opens the user's repository, with what is staged for it.
func openTarget(repo *gitrepo.Repository, subject Subject) (*target, error) {
	t := &target{repo: repo, sandbox: subject.Sandbox}
	scratch := subject.Places.Scratch
	var err error
	if t.shadow, err = repo.Shadow(scratch); err != nil {
		return nil, err
	}
	if t.trial, err = repo.Staging(scratch, filepath.Join(t.shadow.Dir, "trial"), filepath.Join(subject.folder(), "objects")); err != nil {
		return nil, errors.Join(err, t.shadow.Close())
	}
	if err := t.trial.Sparse(); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// folder is the folder whose files change with the branch.
func (t *target) folder() string {
	if !t.checkedOut || t.direct {
		return ""
	}
	return t.repo.WorkTree
}

// target finds the branch, and refuses what can't be brought to it.
func (s *Session) target(ctx context.Context, into string) (*target, error) {
	switch {
	case s.subject.Workspace.ReadOnly:
		return nil, forage.Errorf(forage.ErrRefused, "the workspace is read-only: there is nothing to apply")
	case s.source == nil:
		return nil, s.noSource
	}
	if into == "" {
		into = s.source.Head
	}
	if into == "" {
		return nil, forage.WithHint(
			forage.Errorf(forage.ErrRefused, "%s has no branch checked out", s.source.GitDir), "name one with --into")
	}
	t, err := openTarget(s.source, s.subject)
	if err != nil {
		return nil, err
	}
	t.branch, t.direct = into, s.subject.direct()
	if err := t.find(ctx, s); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// checkName refuses what can't be the name of the branch.
func (s *Session) checkName(ctx context.Context, branch string) error {
	switch _, err := s.staging.Line(ctx, "check-ref-format", "refs/heads/"+branch); {
	case branch == "": // nothing is checked out
		return nil
	case err != nil, strings.HasPrefix(branch, "-"), branch == "HEAD":
		return forage.Errorf(forage.ErrUsage, "%q is no name for a branch", branch)
	case branch == s.Branch:
		return forage.Errorf(forage.ErrUsage, "%s is the sandbox's own branch: name another with --into", branch)
	}
	return nil
}

func (t *target) find(ctx context.Context, s *Session) error {
	ref := "refs/heads/" + t.branch
	if t.commit = s.commit(ctx, t.shadow, ref); t.commit != s.at {
		return forage.WithHint(forage.Errorf(forage.ErrRefused, "the branch %s was moved just now", t.branch), "apply again")
	}
	if err := t.free(ctx); err != nil {
		return err
	}
	for _, checkout := range t.repo.Checkouts(ctx) {
		if err := t.used(checkout); err != nil {
			return err
		}
		if checkout.Branch != t.branch {
			continue
		}
		if checkout.GitDir != t.repo.GitDir {
			return forage.WithHint(
				forage.Errorf(forage.ErrRefused, "%s is checked out in another working folder, %s", t.branch, checkout.Folder),
				"merge there with `git merge "+s.Branch+"`, or name another branch with --into")
		}
		t.checkedOut = t.repo.WorkTree != ""
	}
	if t.checkedOut {
		return t.quiet()
	}
	return nil
}

// free refuses a new branch that git has no room for: beside "a" there can be no "a/b".
func (t *target) free(ctx context.Context) error {
	if t.commit != "" {
		return nil
	}
	for above := path.Dir(t.branch); above != "."; above = path.Dir(above) {
		if t.exists(ctx, above) {
			return inTheWay(t.branch, above)
		}
	}
	below, err := t.shadow.Line(ctx, "for-each-ref", "--count=1", "--format=%(refname:lstrip=2)", "refs/heads/"+t.branch+"/")
	if err == nil && below != "" {
		err = inTheWay(t.branch, below)
	}
	return err
}

func (t *target) exists(ctx context.Context, branch string) bool {
	_, err := t.shadow.Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", "refs/heads/"+branch)
	return err == nil
}

func inTheWay(branch, other string) error {
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "there is a branch %s, beside which git can't have %s", term.Escape(other), term.Escape(branch)),
		"name another with --into")
}

// maxHeadName bounds a file that names a branch, in bytes.
const maxHeadName = 64 << 10

// used refuses a branch that a rebase or bisect goes back to when it ends: it would find it elsewhere.
func (t *target) used(checkout gitrepo.Checkout) error {
	for name, what := range map[string]string{"rebase-merge/head-name": "rebased", "rebase-apply/head-name": "rebased", "BISECT_START": "bisected"} {
		text, err := workspace.ReadFile(filepath.Join(checkout.GitDir, name), 0, maxHeadName)
		if err == nil && strings.TrimPrefix(strings.TrimSpace(string(text)), "refs/heads/") == t.branch {
			return forage.WithHint(
				forage.Errorf(forage.ErrRefused, "%s is being %s in %s", t.branch, what, checkout.Folder),
				"finish that, or abort it, and apply again; or name another branch with --into")
		}
	}
	return nil
}

// unfinished are the files by which git knows that a command of the user's is in the middle of something.
var unfinished = map[string]string{
	"MERGE_HEAD": "a merge", "rebase-merge": "a rebase", "rebase-apply": "a rebase", "CHERRY_PICK_HEAD": "a cherry-pick", "REVERT_HEAD": "a revert",
}

// quiet refuses while somebody else is at work in the user's folder.
func (t *target) quiet() error {
	for name, what := range unfinished {
		if _, err := os.Lstat(filepath.Join(t.repo.GitDir, name)); !errors.Is(err, fs.ErrNotExist) {
			return forage.WithHint(
				forage.Errorf(forage.ErrRefused, "%s is under way in %s", what, t.repo.WorkTree),
				"finish it, or abort it, and apply again; or name another branch with --into")
		}
	}
	return t.unlocked()
}

func (t *target) unlocked() error {
	if _, err := os.Lstat(t.lockFile()); errors.Is(err, fs.ErrNotExist) || t.holds() {
		return nil
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "the index is locked: there is a file %s", t.lockFile()),
		"wait for the git command that is running there; if there is none, remove that file")
}
