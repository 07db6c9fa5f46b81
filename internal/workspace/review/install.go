package review

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/hostile"
	"forage/internal/store"
	"forage/internal/term"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// journal says what an apply is about to do. It is there from before the first change until after the last one.
//
//	{"gitDir": "/repo/.git", "branch": "main", "from": "COMMIT", "to": "COMMIT", "before": "TREE", "after": "TREE"}
type journal struct {
	GitDir string `json:"gitDir"`
	Branch string `json:"branch,omitempty"`
	From   string `json:"from,omitempty"` // where the branch is; equal to To: it stays there
	To     string `json:"to,omitempty"`
	Before string `json:"before,omitempty"` // the tree of the folder's files; "": no folder changes
	After  string `json:"after,omitempty"`  // what it becomes
	Mark   mark   `json:"mark"`             // what is remembered once it is done
}

func journalFile(folder string) string { return filepath.Join(folder, "applying.json") }

// readJournal is the journal of an apply that didn't come to its end; nil if there is none.
func readJournal(folder string) (*journal, error) {
	var j journal
	err := store.ReadJSON(journalFile(folder), &j)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &j, err
}

// installation is the one way in which work comes to the user: first the journal, then the files and the index of a folder, then the
// branch, then what is remembered. Each part may be absent. An error before the branch has moved takes back what was done to the files.
type installation struct {
	*target
	journal
	subject Subject
	changed []Change // from Before to After, once it was asked
}

// changes are what is different between Before and After.
func (i *installation) changes(ctx context.Context) (_ []Change, err error) {
	if i.changed == nil {
		i.changed, err = diffTrees(ctx, i.git, i.Before, i.After)
	}
	return i.changed, err
}

// run runs git on an index and the files of the folder.
func (i *installation) run(ctx context.Context, index string, stdin []byte, args ...string) ([]byte, error) {
	return i.git.Git(ctx, gitrepo.Call{Args: args, Stdin: stdin, WorkTree: i.repo.WorkTree, Index: index, Output: maxList})
}

func (i *installation) install(ctx context.Context) error {
	err := i.write()
	if err == nil && i.After != "" {
		if err = i.still(ctx); err == nil {
			i.refresh(ctx, i.index)
			err = i.free(ctx, i.index)
		}
	}
	if err != nil {
		return errors.Join(err, i.end())
	}
	if i.After != "" {
		if _, err = i.run(ctx, i.index, nil, i.readTree(i.Before, i.After)...); err != nil {
			err = fmt.Errorf("updating %s: %w", i.repo.WorkTree, err)
		}
	}
	if err == nil {
		err = i.finish(ctx)
	}
	if err == nil {
		return i.settle(ctx)
	}
	undone := i.undo(context.WithoutCancel(ctx))
	if undone == nil {
		undone = i.end()
	}
	return errors.Join(err, undone)
}

// finish does what is left once the files and the index are as they are to be.
func (i *installation) finish(ctx context.Context) error {
	if i.To != i.From && i.commit == i.From {
		if err := i.move(ctx, i.To, "forage: apply "+i.subject.Sandbox); err != nil {
			return err
		}
	}
	if i.After == "" {
		return nil
	}
	to, err := treeOf(ctx, i.git, i.To)
	if err == nil && to != i.After { // what is not committed is in the files alone
		_, err = i.run(ctx, i.index, nil, "read-tree", "-i", "-m", i.After, to)
	}
	i.refresh(ctx, i.index)
	return err
}

// settle remembers what the branch has got, and ends.
func (i *installation) settle(ctx context.Context) error {
	m := i.Mark
	err := i.subject.update(ctx, func(state *state) { state.remember(m) })
	if err == nil && m.Whole && m.After != "" {
		err = gitrepo.NoteTaken(i.subject.Workspace, m.After, m.Tip)
	}
	if err != nil {
		return err
	}
	return i.end()
}

func (i *installation) write() error {
	return store.WriteJSON(journalFile(i.subject.folder()), i.journal)
}

func (i *installation) end() error { return os.RemoveAll(journalFile(i.subject.folder())) }

// still refuses when another branch was checked out meanwhile.
func (i *installation) still(ctx context.Context) error {
	repo, err := gitrepo.Open(ctx, i.repo.WorkTree)
	if err == nil && (repo.Head != i.branch || repo.GitDir != i.GitDir) {
		err = forage.WithHint(
			forage.Errorf(forage.ErrRefused, "%s is not checked out in %s any more", i.branch, i.repo.WorkTree),
			"check that branch out, and apply again; or, if the files are as you want them, remove "+journalFile(i.subject.folder()))
	}
	return err
}

// refresh has git look into files whose times are not those of the index. Its exit status says whether any differ.
func (i *installation) refresh(ctx context.Context, index string) {
	_, _ = i.run(ctx, index, nil, "update-index", "-q", "--ignore-submodules", "--refresh")
}

// readTree is the two-way merge of git-read-tree(1): what the user changed and the work didn't stays; the rest refuses.
func (i *installation) readTree(from, to string) []string {
	if i.direct { // the files are the sandbox's own: only the index follows
		return []string{"read-tree", "-i", "-m", from, to}
	}
	return []string{"read-tree", "-u", "-m", from, to}
}

// maxIndex bounds the user's index, in bytes: millions of files.
const maxIndex = 1 << 30

// rehearse finds out, changing nothing, whether anything of the user's is in the way.
func (i *installation) rehearse(ctx context.Context) error {
	index := filepath.Join(i.git.Dir, "trial.index")
	if err := workspace.CopyFile(i.index, index, maxIndex); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	i.refresh(ctx, index)
	return i.free(ctx, index)
}

func (i *installation) free(ctx context.Context, index string) error {
	changes, err := i.changes(ctx)
	if err != nil {
		return err
	}
	args := i.readTree(i.Before, i.After)
	if _, err = i.run(ctx, index, nil, append([]string{args[0], "-n"}, args[1:]...)...); err == nil && !i.direct {
		err = i.untracked(ctx, index, changes)
	}
	if err != nil {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "changes of your own in %s are in the way: %s", i.repo.WorkTree, term.Escape(err.Error())),
			"commit them, or put them aside with `git stash -u`; or name another branch with --into")
	}
	return nil
}

// untracked finds files of the user's where new ones would come. git would tell, but for ignored ones, which it overwrites.
func (i *installation) untracked(ctx context.Context, index string, changes []Change) error {
	gone := make(map[string]bool)
	for _, c := range changes {
		gone[c.Path] = c.NewMode == 0
	}
	for _, c := range changes {
		at := filepath.Join(i.repo.WorkTree, c.Path)
		if c.OldMode == modeGitlink && c.NewMode != 0 && c.NewMode != modeGitlink { // git removes a folder for it, whatever is in that
			if names, err := os.ReadDir(at); err == nil && len(names) > 0 {
				return fmt.Errorf("%s is a submodule with files in its folder: `git submodule deinit` takes them away", c.Path)
			}
		}
		if c.OldMode != 0 || c.NewMode == 0 {
			continue
		}
		for on := c.Path; on != "."; on = path.Dir(on) {
			info, err := os.Lstat(filepath.Join(i.repo.WorkTree, on))
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
				return err
			}
			if err == nil && !info.IsDir() && !gone[on] {
				return fmt.Errorf("%s is there, and isn't in the repository", on)
			}
		}
		if info, err := os.Lstat(at); err != nil || !info.IsDir() {
			continue
		}
		others, err := i.run(ctx, index, nil, "ls-files", "-z", "-o", "--", c.Path)
		if name, _, found := strings.Cut(string(others), "\x00"); found || err != nil {
			return cmp.Or(err, fmt.Errorf("%s is there, and isn't in the repository", name))
		}
	}
	return nil
}

// interrupted refuses as long as an apply that was killed is not repaired.
func (s *Session) interrupted() error {
	j, err := readJournal(s.subject.folder())
	if err != nil || j == nil {
		return err
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "an earlier apply to %s was killed and is not repaired yet", j.where()),
		"`forage-ctl apply "+s.subject.Sandbox+"` does that first")
}

func (j journal) where() string {
	if j.Branch == "" {
		return j.GitDir
	}
	return j.Branch + " in " + j.GitDir
}

// Recover repairs what an apply left that was killed. quiet refuses, if it has to, that files are written below a folder of the user's.
func Recover(ctx context.Context, subject Subject, quiet func(folder string) error) error {
	j, err := readJournal(subject.folder())
	if err != nil || j == nil {
		return err
	}
	i := &installation{journal: *j, subject: subject}
	if subject.Workspace.Repository.Kind == forage.RepositoryJJ {
		i.target, err = repairJJ(ctx, subject, j.Branch)
	} else {
		i.target, err = gitTarget(ctx, subject, j.Branch)
	}
	if err == nil {
		err = errors.Join(i.repair(ctx, quiet), i.close())
	}
	if err != nil {
		return fmt.Errorf("repairing an apply to %s that was killed: %w", j.where(), err)
	}
	return nil
}

func gitTarget(ctx context.Context, subject Subject, branch string) (*target, error) {
	repo, err := gitrepo.Open(ctx, subject.repository())
	if err != nil {
		return nil, gone(subject.repository(), err)
	}
	repo.LineEnds(ctx, subject.Git)
	t, err := openTarget(repo, subject, branch)
	if err == nil {
		t.commit, err = t.git.Branch(ctx, "refs/heads/"+branch)
	}
	return t, err
}

// repair has one rule: once the index is as it is to be, all of the apply is done, and until then nothing.
func (i *installation) repair(ctx context.Context, quiet func(folder string) error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case i.commit != i.From && i.commit != i.To: // the user went on from there
		return i.settle(ctx)
	case i.After == "" && i.commit == i.From:
		return i.end()
	case i.commit == i.From:
		if err := i.still(ctx); err != nil {
			return err
		}
		if quiet != nil && !i.direct {
			if err := quiet(i.repo.WorkTree); err != nil {
				return err
			}
		}
		if done, err := i.indexed(ctx); err != nil {
			return err
		} else if !done {
			if err := i.undo(ctx); err != nil {
				return err
			}
			return i.end()
		}
	}
	if i.After != "" {
		if err := i.unlock(); err != nil {
			return err
		}
	}
	if err := i.finish(ctx); err != nil {
		return err
	}
	return i.settle(ctx)
}

// unlock takes away the lock of a git of ours that was killed. While the lock is there no other git changes the index.
func (i *installation) unlock() error { return os.RemoveAll(i.index + ".lock") }

// indexed says whether git came to write the index, which is the last that it does with files.
func (i *installation) indexed(ctx context.Context) (bool, error) {
	changes, err := i.changes(ctx)
	if err != nil {
		return false, err
	}
	list, err := i.run(ctx, i.index, nil, "diff-index", "--cached", "--raw", "-z", "--no-abbrev", "--no-renames", "--ignore-submodules=none", i.After)
	differ, parsed := byPath(list)
	for _, c := range changes {
		if _, ok := differ[c.Path]; ok {
			return false, errors.Join(err, parsed)
		}
	}
	return true, errors.Join(err, parsed)
}

// undo gives the files that an apply may have written the content that they had before: those that are as the work has them, or the
// beginning of it, and those that are gone. No other file is touched: what the user did since stays.
func (i *installation) undo(ctx context.Context) error {
	if i.After == "" {
		return nil
	}
	done, err := i.indexed(ctx)
	if err := errors.Join(err, i.unlock()); err != nil {
		return err
	}
	if done {
		if _, err := i.run(ctx, i.index, nil, "read-tree", "-i", "-m", i.After, i.Before); err != nil {
			return err
		}
	}
	if i.direct {
		return nil
	}
	changes, err := i.changes(ctx)
	if err != nil {
		return err
	}
	scratch := filepath.Join(i.git.Dir, "undo.index")
	if _, err := i.run(ctx, scratch, nil, "read-tree", i.After); err != nil {
		return err
	}
	i.refresh(ctx, scratch)
	list, err := i.run(ctx, scratch, nil, "diff-files", "--raw", "-z", "--no-abbrev", "--ignore-submodules=none")
	differ, parsed := byPath(list)
	if err := errors.Join(err, parsed); err != nil {
		return err
	}
	root, err := os.OpenRoot(i.repo.WorkTree)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, c := range changes {
		now, differs := differ[c.Path]
		if c.NewMode == 0 || c.NewMode == modeGitlink || differs && (now.NewMode&^0o777 != modeFile || !i.begun(ctx, root, scratch, c)) {
			continue // not git's: absent, behind a link, or what the user made of it
		}
		if err := root.Remove(c.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for dir := path.Dir(c.Path); dir != "." && root.Remove(dir) == nil; dir = path.Dir(dir) {
		}
	}
	var restore bytes.Buffer
	for _, c := range changes {
		if _, err := root.Lstat(c.Path); err != nil && c.OldMode != 0 && c.OldMode != modeGitlink {
			restore.WriteString(c.Path + "\x00")
		}
	}
	if restore.Len() > 0 {
		_, err = i.run(ctx, i.index, restore.Bytes(), "checkout-index", "-u", "-z", "--stdin")
	}
	return err
}

// maxBegun bounds what is compared, in bytes.
const maxBegun = 64 << 20

// begun says whether a file is the beginning of what the work has there: git was killed while it wrote it.
func (i *installation) begun(ctx context.Context, root *os.Root, index string, c Change) bool {
	text, _, err := hostile.ReadIn(root, c.Path, maxBegun)
	if err != nil {
		return false // something else than a file, or too big to be held
	}
	whole, err := i.git.Git(ctx, gitrepo.Call{
		Args: []string{"cat-file", "--filters", "--path=" + c.Path, c.newID}, WorkTree: i.repo.WorkTree, Index: index, Brief: true,
	})
	return err == nil && bytes.HasPrefix(whole, text)
}
