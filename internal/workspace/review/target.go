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
	"forage/internal/workspace/jjrepo"
)

// target is where the work is brought to: a branch or bookmark, and the folder in which it is checked out.
type target struct {
	repo       *gitrepo.Repository // the user's
	git        *gitrepo.Shadow     // over repo and our staging; it moves the user's refs
	branch     string              // "" for a folder without a repository
	commit     string              // "": there is no such branch yet
	checkedOut bool                // in the user's folder
	direct     bool                // the user's folder is the workspace: its files are as they are to be
	index      string              // of the folder
	close      func() error
	jj         *jjrepo.Shadow // of a bookmark: the branch is jj's
}

// openTarget opens the user's repository, with what is staged for it.
func openTarget(repo *gitrepo.Repository, subject Subject, branch string) (*target, error) {
	git, err := repo.Staging(subject.Places.Scratch, filepath.Join(subject.folder(), "trial"), filepath.Join(subject.folder(), "objects"))
	if err != nil {
		return nil, err
	}
	t := &target{repo: repo, git: git, branch: branch, direct: subject.direct(), index: filepath.Join(repo.GitDir, "index"), close: git.Close}
	if err := git.Sparse(); err != nil {
		return nil, errors.Join(err, git.Close())
	}
	return t, nil
}

// at is where the branch is now.
func (t *target) at(ctx context.Context) (string, error) {
	if t.jj == nil {
		return t.git.Branch(ctx, "refs/heads/"+t.branch)
	}
	refs, err := t.jj.Refs(ctx)
	return refs.Values["refs/heads/"+t.branch], err
}

// move moves the branch. For jj, which first says where it is, that is one operation: `jj undo` takes it back.
func (t *target) move(ctx context.Context, to, why string) (err error) {
	ref := "refs/heads/" + t.branch
	if t.jj != nil {
		err = errors.Join(t.jj.Change(ctx, "git", "export"), t.detach(ctx))
	}
	if err == nil {
		err = t.git.MoveBranch(ctx, ref, t.commit, to, why)
	}
	if err == nil && t.jj != nil {
		if err = t.jj.GitImport(ctx); err != nil {
			args := []string{"update-ref", ref, t.commit, to}
			if t.commit == "" {
				args = []string{"update-ref", "-d", ref, to}
			}
			_, undone := t.git.Line(context.WithoutCancel(ctx), args...)
			err = errors.Join(err, undone)
		}
	}
	if err != nil {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "%s can't be moved: %w", t.branch, err),
			"it may have changed meanwhile: look at it, and apply again")
	}
	return nil
}

// detach does to a HEAD of git's that is on the branch what jj does before it moves one: else the move is one of the files too.
func (t *target) detach(ctx context.Context) error {
	git := t.jj.Repository.Git
	if git.Head != t.branch {
		return nil
	}
	args := []string{"update-ref", "--no-deref", "HEAD", t.commit, t.commit}
	if t.commit == "" {
		args = []string{"symbolic-ref", "HEAD", "refs/jj/root"}
	}
	_, err := t.git.Line(ctx, append([]string{"--git-dir=" + git.GitDir, "-c", "core.hooksPath=/dev/null"}, args...)...)
	return err
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
	t, err := openTarget(s.source, s.subject, into)
	if err != nil {
		return nil, err
	}
	s.opened = append(s.opened, t.close)
	return t, t.find(ctx, s)
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
	var err error
	if t.commit, err = t.git.Branch(ctx, "refs/heads/"+t.branch); err != nil {
		return err
	}
	if t.commit != s.at {
		return forage.WithHint(forage.Errorf(forage.ErrRefused, "the branch %s was moved just now", t.branch), "apply again")
	}
	if t.commit == "" {
		if err := t.free(ctx); err != nil {
			return err
		}
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
	other, err := t.git.Line(ctx, "for-each-ref", "--count=1", "--format=%(refname:lstrip=2)", "refs/heads/"+t.branch+"/")
	for above := path.Dir(t.branch); above != "."; above = path.Dir(above) {
		if at, _ := t.git.Branch(ctx, "refs/heads/"+above); at != "" {
			other = above
		}
	}
	if err != nil || other == "" {
		return err
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "there is a branch %s, beside which git can't have %s", term.Escape(other), term.Escape(t.branch)),
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
	"index.lock": "a git command",
}

// quiet refuses while the user is in the middle of something in the folder.
func (t *target) quiet() error {
	for name, what := range unfinished {
		name = filepath.Join(t.repo.GitDir, name)
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return forage.WithHint(
				forage.Errorf(forage.ErrRefused, "%s is under way in %s: there is %s", what, t.repo.WorkTree, name),
				"finish it, or abort it, and apply again (if git was killed there, remove index.lock); or name another branch with --into")
		}
	}
	return nil
}
