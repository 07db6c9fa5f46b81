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

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/term"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// prepare finds out whether the branch can move, and the user's folder and index with it where it is checked out there, and changes
// nothing. What it returns does it; what fails of that is taken back.
func (t *target) prepare(ctx context.Context, s *Session, r result) (install func(context.Context) error, err error) {
	if !t.checkedOut {
		return func(ctx context.Context) error { return t.moveBranch(ctx, r.commit) }, nil
	}
	i, err := newInstallation(ctx, t, s.subject, journal{GitDir: t.repo.GitDir, Branch: t.branch, From: t.commit, To: r.commit, Files: r.files})
	if err != nil {
		return nil, err
	}
	return i.install, i.rehearse(ctx)
}

// moveBranch is one compare-and-swap; nobody's hooks run.
func (t *target) moveBranch(ctx context.Context, commit string) error {
	before := t.commit
	if before == "" {
		before = strings.Repeat("0", len(commit)) // it must not be there
	}
	_, err := t.shadow.Line(ctx, "update-ref", "-m", "forage: apply "+t.sandbox, "refs/heads/"+t.branch, commit, before)
	if err != nil {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "the branch %s can't be moved: %w", t.branch, err),
			"it may have changed meanwhile: look at it, and apply again")
	}
	return nil
}

// installation brings a folder of the user's, its index and its branch from one commit to another, in this order: the journal,
// the lock of the index, the files, the branch, the index. Until the branch has moved nothing has happened, and the files go back
// to what they were. Once it has moved all has happened, and the index follows.
type installation struct {
	*target
	journal
	state         string // our folder, where the journal is
	index         string // the one that git works on
	before, after string // trees of the files
}

func newInstallation(ctx context.Context, t *target, subject Subject, j journal) (_ *installation, err error) {
	i := &installation{target: t, journal: j, state: subject.folder(), index: filepath.Join(t.trial.Dir, "index")}
	if i.before, err = t.tree(ctx, j.From); err != nil {
		return nil, err
	}
	if i.after = j.Files; i.after == "" {
		i.after, err = t.tree(ctx, j.To)
	}
	return i, err
}

// tree is the tree of a commit; of "" the empty one.
func (t *target) tree(ctx context.Context, commit string) (string, error) {
	if commit == "" {
		tree, err := t.trial.Git(ctx, gitrepo.Call{Args: []string{"mktree"}, Stdin: []byte{}})
		return string(bytes.TrimSpace(tree)), err
	}
	return t.trial.Line(ctx, "rev-parse", "--verify", "--end-of-options", commit+"^{tree}")
}

func (i *installation) git(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	return i.trial.Git(ctx, gitrepo.Call{Args: args, Stdin: stdin, WorkTree: i.repo.WorkTree, Index: i.index})
}

// The user's index, its lock, and what is to become the index. They are in one folder: one is renamed to the other.
func (t *target) userIndex() string { return filepath.Join(t.repo.GitDir, "index") }
func (t *target) lockFile() string  { return t.userIndex() + ".lock" }
func (t *target) nextIndex() string { return t.userIndex() + ".forage-" + t.sandbox }

// maxIndex bounds the user's index, in bytes: millions of files.
const maxIndex = 1 << 30

// copyIndex copies the user's index to the one that git works on.
func (i *installation) copyIndex(ctx context.Context) error {
	err := workspace.CopyFile(i.userIndex(), i.index, maxIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	shared, err := filepath.Glob(filepath.Join(i.repo.GitDir, "sharedindex.*"))
	for _, name := range shared { // of one that is split: git-update-index(1), "split index"
		if err := os.Symlink(name, filepath.Join(i.trial.Dir, filepath.Base(name))); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if len(shared) > 0 {
		_, err = i.git(ctx, nil, "update-index", "--no-split-index")
	}
	// Times that differ are looked into; files that differ stay so, which git says by its exit status.
	_, _ = i.git(ctx, nil, "update-index", "-q", "--ignore-submodules", "--refresh")
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

// rehearse finds out, changing nothing, whether anything of the user's is in the way.
func (i *installation) rehearse(ctx context.Context) error {
	if err := i.copyIndex(ctx); err != nil {
		return err
	}
	return i.free(ctx)
}

func (i *installation) free(ctx context.Context) error {
	changes, err := i.changed(ctx)
	if err != nil {
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

func (i *installation) changed(ctx context.Context) ([]Change, error) {
	list, err := i.trial.Git(ctx, gitrepo.Call{
		Args: []string{"diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none", i.before, i.after}, Output: maxList,
	})
	if err != nil {
		return nil, err
	}
	return parseChanges(strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00"))
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
		if c.OldMode == modeGitlink && c.NewMode != 0 && c.NewMode != modeGitlink { // git removes a folder for it, whatever is in that
			if names, err := os.ReadDir(filepath.Join(i.repo.WorkTree, c.Path)); err == nil && len(names) > 0 {
				return fmt.Errorf("%s is a submodule with files in its folder: `git submodule deinit` takes them away", c.Path)
			}
		}
		if c.OldMode != 0 || c.NewMode == 0 {
			continue
		}
		for dir := filepath.Dir(c.Path); dir != "."; dir = filepath.Dir(dir) {
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

func (i *installation) install(ctx context.Context) error {
	i.Index = stamp(i.userIndex())
	if err := i.write(i.state); err != nil {
		return err
	}
	err := i.do(ctx)
	if err != nil {
		err = errors.Join(err, i.rollBack(context.WithoutCancel(ctx)))
	}
	return errors.Join(err, i.end())
}

func (i *installation) do(ctx context.Context) error {
	if err := i.lock(ctx); err != nil {
		return err
	}
	i.index = i.nextIndex()
	if err := i.copyIndex(ctx); err != nil {
		return err
	}
	if err := i.free(ctx); err != nil {
		return err
	}
	i.Begun = true
	if err := i.write(i.state); err != nil {
		return err
	}
	if _, err := i.git(ctx, nil, i.readTree()...); err != nil {
		return fmt.Errorf("updating %s: %w", i.repo.WorkTree, err)
	}
	if i.Files != "" { // plain changes: what is committed is in the index, and the rest in the files alone
		to, err := i.tree(ctx, i.To)
		if err != nil {
			return err
		}
		if _, err := i.git(ctx, nil, "read-tree", "-i", "-m", i.after, to); err != nil {
			return fmt.Errorf("updating the index of %s: %w", i.repo.WorkTree, err)
		}
	}
	_, _ = i.git(ctx, nil, "update-index", "-q", "--ignore-submodules", "--refresh")
	if i.To != i.From {
		if err := i.moveBranch(ctx, i.To); err != nil {
			return err
		}
	}
	i.Begun = false
	return i.renameIndex()
}

// renameIndex gives the user the index that git made; none, where there are no files.
func (i *installation) renameIndex() error {
	err := os.Rename(i.nextIndex(), i.userIndex())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
