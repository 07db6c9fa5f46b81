package review

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// journal says what an apply that is under way is about to do, for whoever finds it unfinished.
//
//	{"gitDir": "/repo/.git", "branch": "main", "from": "COMMIT", "to": "COMMIT", "index": "INODE SIZE TIME"}
type journal struct {
	GitDir string `json:"gitDir"`
	Branch string `json:"branch"`
	From   string `json:"from,omitempty"`
	To     string `json:"to"`
	Files  string `json:"files,omitempty"` // a tree: of the files, if they are not those of To
	Index  string `json:"index,omitempty"` // the user's index then
	Begun  bool   `json:"begun,omitempty"` // files may have been written
}

func journalFile(folder string) string { return filepath.Join(folder, "applying.json") }

func (j journal) write(folder string) error {
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return renameio.WriteFile(journalFile(folder), text, 0o600, renameio.WithTempDir(folder))
}

// readJournal is the journal of an apply that didn't come to its end; it is empty if there is none.
func readJournal(folder string) (j journal, err error) {
	text, err := os.ReadFile(journalFile(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return j, err
	}
	if err := json.Unmarshal(text, &j); err != nil {
		return j, fmt.Errorf("reading %s: %w", journalFile(folder), err)
	}
	return j, nil
}

// stamp tells one state of a file from others; "" is none.
func stamp(name string) string {
	var stat unix.Stat_t
	if unix.Lstat(name, &stat) != nil {
		return ""
	}
	return fmt.Sprint(stat.Ino, stat.Size, stat.Mtim.Nano())
}

// ours is what the lock of an index says that is this sandbox's: what a killed apply left is known by it.
func (t *target) ours() string { return "forage apply " + t.sandbox + "\n" }

func (t *target) holds() bool {
	text, err := workspace.ReadFile(t.lockFile(), 0, 1<<10)
	return err == nil && string(text) == t.ours()
}

// lock keeps git's other commands off the index, as git itself does. While it is held no command changes the branch.
func (i *installation) lock(ctx context.Context) error {
	made := i.nextIndex() + ".lock" // the lock says whose it is from the first moment on
	err := os.WriteFile(made, []byte(i.ours()), 0o644)
	if err == nil {
		err = errors.Join(os.Link(made, i.lockFile()), os.Remove(made))
	}
	if err != nil {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "locking the index: %w", err),
			"wait for the git command that is running there, and apply again; if there is none, remove "+i.lockFile())
	}
	repo, err := gitrepo.Open(ctx, i.repo.WorkTree)
	if err != nil {
		return err
	}
	if repo.Head != i.branch {
		return forage.Errorf(forage.ErrRefused, "%s is not checked out in %s any more: apply again", i.branch, i.repo.WorkTree)
	}
	if now := stamp(i.userIndex()); now != i.Index {
		return forage.Errorf(forage.ErrRefused, "the index of %s was changed meanwhile: apply again", i.repo.WorkTree)
	}
	return nil
}

// end takes away all that an apply has while it is under way. The journal comes last.
func (i *installation) end() error {
	names := []string{i.nextIndex() + ".lock", i.nextIndex()}
	if i.holds() {
		names = append(names, i.lockFile())
	}
	for _, name := range append(names, journalFile(i.state)) {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// interrupted refuses as long as an apply that was killed is not repaired.
func (s *Session) interrupted() error {
	j, err := readJournal(s.subject.folder())
	if err != nil || j.To == "" {
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
	w := subject.Workspace
	if w.Repository != nil && w.Repository.Kind == forage.RepositoryJJ {
		return recoverJJ(ctx, subject)
	}
	j, err := readJournal(subject.folder())
	if err != nil || j.To == "" {
		return err
	}
	if w.Mode == forage.WorkspaceCopy {
		err = recoverPlain(ctx, subject, j, quiet)
	} else {
		err = recoverGit(ctx, subject, j, quiet)
	}
	if err != nil {
		return fmt.Errorf("repairing an apply to %s that was killed: %w", j.where(), err)
	}
	return nil
}

// recoverGit has one rule: if the branch has moved, all of it is done, and else nothing.
func recoverGit(ctx context.Context, subject Subject, j journal, quiet func(folder string) error) (err error) {
	path := subject.repository()
	repo, err := gitrepo.Open(ctx, path)
	if err != nil {
		return gone(path, err)
	}
	repo.LineEnds(ctx, subject.Git)
	t, err := openTarget(repo, subject)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	t.branch, t.checkedOut, t.direct = j.Branch, true, subject.direct()
	t.commit, _ = t.shadow.Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", "refs/heads/"+j.Branch+"^{commit}")
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if t.commit != j.From { // done, and perhaps the user went on from there
		i := &installation{target: t, journal: j, state: subject.folder()}
		if t.commit == j.To && stamp(i.userIndex()) == j.Index {
			err = i.renameIndex()
		}
		return errors.Join(err, i.end())
	}
	if j.GitDir != repo.GitDir || j.Branch != repo.Head {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "%s is not checked out there any more", j.Branch),
			"check that branch out, and apply again; or, if the files are as you want them, remove "+journalFile(subject.folder()))
	}
	if err := t.quiet(); err != nil {
		return err
	}
	if folder := t.folder(); folder != "" && quiet != nil {
		if err := quiet(folder); err != nil {
			return err
		}
	}
	i, err := newInstallation(ctx, t, subject, j)
	if err != nil {
		return err
	}
	if err := i.rollBack(ctx); err != nil {
		return err
	}
	return i.end()
}

// rollBack gives the files that an apply may have written the content that they had before: those that are as the work has them, or
// the beginning of it, and those that are gone. No other file is touched: what the user did since stays.
func (i *installation) rollBack(ctx context.Context) error {
	if i.direct || !i.Begun {
		return nil
	}
	changes, err := i.changed(ctx)
	if err != nil {
		return err
	}
	i.index = filepath.Join(i.trial.Dir, "undo.index")
	if _, err := i.git(ctx, nil, "read-tree", i.after); err != nil {
		return err
	}
	_, _ = i.git(ctx, nil, "update-index", "-q", "--ignore-submodules", "--refresh")
	list, err := i.git(ctx, nil, "ls-files", "-z", "-m", "-d")
	if err != nil {
		return err
	}
	differs := make(map[string]bool)
	for name := range strings.SplitSeq(string(list), "\x00") {
		differs[name] = true
	}
	for _, c := range changes {
		if c.NewMode == 0 || c.NewMode == modeGitlink || i.behindLink(c.Path) || differs[c.Path] && !i.begun(ctx, c) {
			continue
		}
		if err := os.Remove(filepath.Join(i.repo.WorkTree, c.Path)); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			return err
		}
		i.removeEmpty(filepath.Dir(c.Path))
	}
	var restore bytes.Buffer
	for _, c := range changes {
		if _, err := os.Lstat(filepath.Join(i.repo.WorkTree, c.Path)); err != nil && c.OldMode != 0 && c.OldMode != modeGitlink {
			restore.WriteString(c.Path + "\x00")
		}
	}
	if _, err := i.git(ctx, nil, "read-tree", i.before); err != nil || restore.Len() == 0 {
		return err
	}
	_, err = i.git(ctx, restore.Bytes(), "checkout-index", "-z", "--stdin")
	return err
}

// behindLink says whether a folder on the way to a file is a link: git has not come to replace it yet, and what it leads to is nobody's
// here.
func (i *installation) behindLink(path string) bool {
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		if info, err := os.Lstat(filepath.Join(i.repo.WorkTree, dir)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

// begun says whether a file is the beginning of what the work has there: git was killed while it wrote it.
func (i *installation) begun(ctx context.Context, c Change) bool {
	text, err := workspace.ReadFile(filepath.Join(i.repo.WorkTree, c.Path), unix.O_NOFOLLOW, maxBegun)
	if err != nil {
		return false // something else than a file, or too big to be held
	}
	whole, err := i.trial.Git(ctx, gitrepo.Call{
		Args: []string{"cat-file", "--filters", "--path=" + c.Path, c.newID}, WorkTree: i.repo.WorkTree, Index: i.index, Brief: true,
	})
	return err == nil && bytes.HasPrefix(whole, text)
}

// maxBegun bounds what is compared, in bytes.
const maxBegun = 64 << 20

// removeEmpty removes the folder, and those above it, as long as nothing is in them.
func (i *installation) removeEmpty(dir string) {
	for ; dir != "."; dir = filepath.Dir(dir) {
		if os.Remove(filepath.Join(i.repo.WorkTree, dir)) != nil {
			return
		}
	}
}
