package review

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/term"
	"forage/internal/workspace/gitrepo"
)

// prepare finds out whether the branch can move, and the user's folder and index with it where it is checked out there, and changes
// nothing. What it returns does it; what fails of that is undone.
func (t *target) prepare(ctx context.Context, s *Session, commit string) (install func(context.Context) error, err error) {
	if !t.checkedOut {
		return func(ctx context.Context) error { return t.moveBranch(ctx, s.subject.Sandbox, commit) }, nil
	}
	i, err := newInstallation(ctx, t, s.subject, t.commit, commit)
	if err != nil {
		return nil, err
	}
	return i.install, i.try(ctx)
}

func (i *installation) install(ctx context.Context) error {
	err := i.finish(ctx)
	if err == nil {
		return i.forget()
	}
	undone := i.undo(context.WithoutCancel(ctx))
	if undone == nil {
		return errors.Join(err, i.forget())
	}
	return errors.Join(err, fmt.Errorf("taking it back: %w", undone))
}

// moveBranch is one compare-and-swap; nobody's hooks run.
func (t *target) moveBranch(ctx context.Context, sandbox, commit string) error {
	before := t.commit
	if before == "" {
		before = zeroID(commit) // it must not be there
	}
	_, err := t.shadow.Line(ctx, "update-ref", "-m", "forage: apply "+sandbox, "refs/heads/"+t.branch, commit, before)
	if err != nil {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "the branch %s can't be moved: %w", t.branch, err),
			"it may have changed meanwhile: look at it, and apply again")
	}
	return nil
}

func zeroID(like string) string { return string(bytes.Repeat([]byte("0"), len(like))) }

// tree is the tree of a commit; of "" the empty one.
func (t *target) tree(ctx context.Context, commit string) (string, error) {
	if commit == "" {
		tree, err := t.trial.Git(ctx, gitrepo.Call{Args: []string{"mktree"}, Stdin: []byte{}})
		return string(bytes.TrimSpace(tree)), err
	}
	return t.trial.Line(ctx, "rev-parse", "--verify", "--end-of-options", commit+"^{tree}")
}

// installation brings a folder of the user's from one commit to another.
type installation struct {
	*target
	sandbox       string
	folder        string // ours: where the note is
	index         string // our copy of the user's index
	original      []byte // the user's index as it was; nil: there was none
	originalInfo  fs.FileInfo
	installed     []byte // what was put in its place; nil: nothing yet
	from, to      string // commits
	before, after string // their trees
}

func newInstallation(ctx context.Context, t *target, subject Subject, from, to string) (_ *installation, err error) {
	i := &installation{
		target: t, sandbox: subject.Sandbox, folder: subject.folder(), index: filepath.Join(t.trial.Dir, "index"), from: from, to: to,
	}
	if i.before, err = t.tree(ctx, from); err != nil {
		return nil, err
	}
	if i.after, err = t.tree(ctx, to); err != nil {
		return nil, err
	}
	return i, i.begin(ctx)
}

func (i *installation) git(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	return i.trial.Git(ctx, gitrepo.Call{Args: args, Stdin: stdin, WorkTree: i.repo.WorkTree, Index: i.index})
}

// begin copies the user's index: all work is done on the copy, so that the user's is locked for no longer than a rename.
func (i *installation) begin(ctx context.Context) (err error) {
	i.original, err = i.readIndex()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if i.originalInfo, err = os.Stat(i.target.index()); err != nil {
		return err
	}
	if err := gitrepo.CopyIndex(i.target.index(), i.index); err != nil {
		return err
	}
	if err := i.whole(ctx); err != nil {
		return err
	}
	// Times that differ are looked into; files that differ stay so, which git says by its exit status.
	_, _ = i.git(ctx, nil, "update-index", "-q", "--ignore-submodules", "--refresh")
	return nil
}

// whole makes one index of one that is split: git-update-index(1), "split index".
func (i *installation) whole(ctx context.Context) error {
	shared, err := filepath.Glob(filepath.Join(i.repo.GitDir, "sharedindex.*"))
	if err != nil || len(shared) == 0 {
		return err
	}
	for _, name := range shared {
		if err := os.Symlink(name, filepath.Join(i.trial.Dir, filepath.Base(name))); err != nil {
			return err
		}
	}
	_, err = i.git(ctx, nil, "update-index", "--no-split-index")
	return err
}

// readTree is the two-way merge of git-read-tree(1): what the user changed and the work didn't stays; the rest refuses.
func (i *installation) readTree(extra ...string) []string {
	args := append([]string{"read-tree"}, extra...)
	if i.direct {
		args = append(args, "-i") // the files are the sandbox's own: only the index follows
	} else {
		args = append(args, "-u")
	}
	return append(args, "-m", i.before, i.after)
}

// try finds out, changing nothing, whether anything of the user's is in the way.
func (i *installation) try(ctx context.Context) error {
	changes, err := i.changed(ctx)
	if err != nil {
		return err
	}
	if err := i.clash(ctx, changes); err != nil {
		return err
	}
	if _, err = i.git(ctx, nil, i.readTree("-n")...); err == nil {
		err = i.untracked(ctx, changes)
	}
	if err != nil {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "changes of your own in %s are in the way: %s", i.repo.WorkTree, term.Escape(err.Error())),
			"commit them, or put them aside with `git stash -u`; or name another branch with --into")
	}
	return nil
}

// untracked finds files of the user's where new ones would come. git would tell, but for ignored ones, which it overwrites.
func (i *installation) untracked(ctx context.Context, changes []Change) error {
	if i.direct {
		return nil
	}
	gone := make(map[string]bool)
	for _, c := range changes {
		gone[c.Path] = c.NewMode == 0
	}
	for _, c := range changes {
		if c.OldMode != 0 || c.NewMode == 0 {
			continue
		}
		for dir := filepath.Dir(c.Path); dir != "." && dir != "/"; dir = filepath.Dir(dir) {
			if info, err := os.Lstat(filepath.Join(i.repo.WorkTree, dir)); err == nil && !info.IsDir() && !gone[dir] {
				return fmt.Errorf("%s is not a folder, and isn't in the repository", dir)
			}
		}
		info, err := os.Lstat(filepath.Join(i.repo.WorkTree, c.Path))
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		case err != nil:
			return err
		case !info.IsDir():
			return fmt.Errorf("%s is there, and isn't in the repository", c.Path)
		default:
			others, err := i.git(ctx, nil, "ls-files", "-z", "-o", "--", c.Path)
			if err != nil {
				return err
			}
			if name, _, found := strings.Cut(string(others), "\x00"); found {
				return fmt.Errorf("%s is there, and isn't in the repository", name)
			}
		}
	}
	return nil
}

// finish does it: the note, the files, the index, the branch.
func (i *installation) finish(ctx context.Context) error {
	if err := i.note(i.from, i.to); err != nil {
		return err
	}
	if _, err := i.git(ctx, nil, i.readTree()...); err != nil {
		return fmt.Errorf("updating %s: %w", i.repo.WorkTree, err)
	}
	if i.direct {
		_, _ = i.git(ctx, nil, "update-index", "-q", "--ignore-submodules", "--refresh")
	}
	if err := i.replaceIndex(ctx); err != nil {
		return err
	}
	return i.moveBranch(ctx, i.sandbox, i.to)
}

// replaceIndex puts our index in the place of the user's, if that and the branch that is checked out are as they were.
func (i *installation) replaceIndex(ctx context.Context) error {
	text, err := os.ReadFile(i.index)
	if err != nil {
		return err
	}
	made, err := os.Stat(i.index)
	if err != nil {
		return err
	}
	if err := i.exchangeIndex(ctx, i.original, text, made.ModTime()); err != nil { // the time: see gitrepo.CopyIndex
		return err
	}
	i.installed = text
	return nil
}

// restoreIndex puts the user's index back, if ours is still in its place.
func (i *installation) restoreIndex(ctx context.Context) error {
	if i.installed == nil {
		return nil
	}
	var made time.Time
	if i.originalInfo != nil {
		made = i.originalInfo.ModTime()
	}
	return i.exchangeIndex(ctx, i.installed, i.original, made)
}
