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
	"forage/internal/workspace/gitrepo"
)

// install moves the branch, and the user's folder and index with it where it is checked out there. What fails is undone.
func (t *target) install(ctx context.Context, s *Session, commit string, dryRun bool) error {
	if !t.checkedOut && dryRun {
		return nil
	}
	if !t.checkedOut {
		return t.moveBranch(ctx, s, commit)
	}
	i := &installation{target: t, folder: s.subject.folder(), index: filepath.Join(t.shadow.Dir, "index")}
	var err error
	if i.before, err = t.tree(ctx, t.commit); err != nil {
		return err
	}
	if i.after, err = t.tree(ctx, commit); err != nil {
		return err
	}
	if err := i.begin(ctx); err != nil {
		return err
	}
	if err := i.try(ctx); err != nil || dryRun {
		return err
	}
	err = i.finish(ctx, s, commit)
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
func (t *target) moveBranch(ctx context.Context, s *Session, commit string) error {
	before := t.commit
	if before == "" {
		before = zeroID(commit) // it must not be there
	}
	_, err := t.shadow.Line(ctx, "update-ref", "-m", "forage: apply "+s.subject.Sandbox, "refs/heads/"+t.branch, commit, before)
	if err != nil {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "the branch %s can't be moved: %w", t.branch, err),
			"it may have changed meanwhile: look at it, and apply again")
	}
	return nil
}

func zeroID(like string) string { return string(bytes.Repeat([]byte("0"), len(like))) }

// tree is the tree of a commit that the user's repository has; of "" the empty one.
func (t *target) tree(ctx context.Context, commit string) (string, error) {
	if commit == "" {
		tree, err := t.shadow.Git(ctx, gitrepo.Call{Args: []string{"mktree"}, Stdin: []byte{}})
		return string(bytes.TrimSpace(tree)), err
	}
	return t.shadow.Line(ctx, "rev-parse", "--verify", "--end-of-options", commit+"^{tree}")
}

// installation brings a folder of the user's from one tree to another.
type installation struct {
	*target
	folder        string // ours: where the note is
	index         string // our copy of the user's index
	original      []byte // the user's index as it was; nil: there was none
	installed     bool   // ours is in its place
	before, after string // trees
}

func (i *installation) git(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	return i.shadow.Git(ctx, gitrepo.Call{Args: args, Stdin: stdin, WorkTree: i.repo.WorkTree, Index: i.index})
}

// begin copies the user's index: all work is done on the copy, so that the user's is locked for no longer than a rename.
func (i *installation) begin(ctx context.Context) (err error) {
	i.original, err = os.ReadFile(i.target.index())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
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
		if err := os.Symlink(name, filepath.Join(i.shadow.Dir, filepath.Base(name))); err != nil {
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
	_, err := i.git(ctx, nil, i.readTree("-n")...)
	if err == nil {
		err = i.untracked(ctx)
	}
	if err != nil {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "changes of your own in %s are in the way: %s", i.repo.WorkTree, term.Escape(err.Error())),
			"commit them, or put them aside with `git stash -u`; or name another branch with --into")
	}
	return nil
}

// untracked finds files of the user's where new ones would come. git would tell, but for ignored ones, which it overwrites.
func (i *installation) untracked(ctx context.Context) error {
	changes, err := i.changed(ctx)
	if err != nil || i.direct {
		return err
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
func (i *installation) finish(ctx context.Context, s *Session, commit string) error {
	if err := i.note(commit); err != nil {
		return err
	}
	if _, err := i.git(ctx, nil, i.readTree()...); err != nil {
		return fmt.Errorf("updating %s: %w", i.repo.WorkTree, err)
	}
	if i.direct {
		_, _ = i.git(ctx, nil, "update-index", "-q", "--ignore-submodules", "--refresh")
	}
	if err := i.replaceIndex(); err != nil {
		return err
	}
	i.installed = true
	return i.moveBranch(ctx, s, commit)
}

// replaceIndex puts our index in the place of the user's, under git's own lock, if that is as it was.
func (i *installation) replaceIndex() (err error) {
	text, err := os.ReadFile(i.index)
	if err != nil {
		return err
	}
	name := i.target.index()
	lock, err := os.OpenFile(name+".lock", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return forage.Errorf(forage.ErrRefused, "locking the index: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(lock.Name()))
		}
	}()
	_, err = lock.Write(text)
	if err := errors.Join(err, lock.Sync(), lock.Close()); err != nil {
		return err
	}
	if made, err := os.Stat(i.index); err != nil {
		return err
	} else if err := os.Chtimes(lock.Name(), made.ModTime(), made.ModTime()); err != nil { // see gitrepo.CopyIndex
		return err
	}
	now, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !bytes.Equal(now, i.original) {
		return forage.Errorf(forage.ErrRefused, "the index of %s was changed meanwhile: apply again", i.repo.WorkTree)
	}
	return os.Rename(lock.Name(), name)
}
