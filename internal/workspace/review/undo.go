package review

import (
	"bufio"
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
	"forage/internal/workspace/gitrepo"
)

// note says what an apply that is under way is about to do, for whoever finds it unfinished.
//
//	{"gitDir": "/repo/.git", "branch": "main", "from": "COMMIT", "to": "COMMIT"}
type note struct {
	GitDir string `json:"gitDir"`
	Branch string `json:"branch"`
	From   string `json:"from,omitempty"`
	To     string `json:"to"`
}

func noteFile(folder string) string { return filepath.Join(folder, "applying.json") }

func (i *installation) note(from, to string) error {
	text, err := json.Marshal(note{i.repo.GitDir, i.branch, from, to})
	if err != nil {
		return err
	}
	return renameio.WriteFile(noteFile(i.folder), text, 0o600, renameio.WithTempDir(i.folder))
}

func (i *installation) forget() error { return forget(i.folder) }

func forget(folder string) error {
	if err := os.Remove(noteFile(folder)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// readNote is the note of an apply that didn't come to its end; it is empty if there is none.
func readNote(folder string) (n note, err error) {
	text, err := os.ReadFile(noteFile(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err != nil {
		return n, err
	}
	if err := json.Unmarshal(text, &n); err != nil {
		return n, fmt.Errorf("reading %s: %w", noteFile(folder), err)
	}
	return n, nil
}

// interrupted refuses as long as an apply that was killed is not taken back.
func (s *Session) interrupted() error {
	n, err := readNote(s.subject.folder())
	if err != nil || n.To == "" {
		return err
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "an earlier apply to %s was killed and is not taken back yet", n.where()),
		"`forage-ctl apply "+s.subject.Sandbox+"` takes it back first")
}

func (n note) where() string {
	if n.Branch == "" {
		return n.GitDir
	}
	return n.Branch + " in " + n.GitDir
}

// Recover takes back what an apply that was killed had done of its work, unless it had come to its end. quiet refuses, if it has to,
// that files are written below a folder of the user's.
func Recover(ctx context.Context, subject Subject, quiet func(folder string) error) error {
	w := subject.Workspace
	if w.Repository != nil && w.Repository.Kind == forage.RepositoryJJ {
		return recoverJJ(ctx, subject)
	}
	n, err := readNote(subject.folder())
	if err != nil || n.To == "" {
		return err
	}
	if w.Mode == forage.WorkspaceCopy {
		err = recoverPlain(ctx, subject, n, quiet)
	} else {
		err = recoverGit(ctx, subject, n, quiet)
	}
	if err != nil {
		return fmt.Errorf("taking back an apply to %s that was killed: %w", n.where(), err)
	}
	return nil
}

func recoverGit(ctx context.Context, subject Subject, n note, quiet func(folder string) error) (err error) {
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
	if err := t.unlockIndex(); err != nil {
		return err
	}
	t.branch, t.checkedOut, t.direct = n.Branch, true, subject.direct()
	t.commit, _ = t.shadow.Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", "refs/heads/"+n.Branch+"^{commit}")
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if t.commit != n.From { // it had come to its end, or the user went on from there
		return forget(subject.folder())
	}
	if n.GitDir != repo.GitDir || n.Branch != repo.Head {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "%s is not checked out there any more", n.Branch),
			"check that branch out, and apply again; or, if the files are as you want them, remove "+noteFile(subject.folder()))
	}
	if err := t.quiet(); err != nil {
		return err
	}
	if folder := t.folder(); folder != "" && quiet != nil {
		if err := quiet(folder); err != nil {
			return err
		}
	}
	i, err := newInstallation(ctx, t, subject, n.From, n.To)
	if err != nil {
		return err
	}
	if err := i.resetIndex(ctx); err != nil {
		return err
	}
	return i.forget()
}

// resetIndex undoes a killed apply: its files, and its index if it had come that far.
func (i *installation) resetIndex(ctx context.Context) error {
	changes, err := i.changed(ctx)
	if err != nil {
		return err
	}
	var back bytes.Buffer
	for _, c := range changes {
		entry, err := i.git(ctx, nil, "ls-files", "-s", "-z", "--", c.Path)
		if err != nil {
			return err
		}
		if is, _, _ := strings.Cut(string(entry), "\t"); is == stage(c.NewMode, c.newID) && is != stage(c.OldMode, c.oldID) {
			fmt.Fprintf(&back, "%o %s\t%s\x00", c.OldMode, c.oldID, c.Path)
		}
	}
	if err := i.undoFiles(ctx, changes); err != nil || back.Len() == 0 {
		return err
	}
	if _, err := i.git(ctx, back.Bytes(), "update-index", "-z", "--add", "--replace", "--index-info"); err != nil {
		return err
	}
	_, _ = i.git(ctx, nil, "update-index", "-q", "--ignore-submodules", "--refresh")
	return i.replaceIndex(ctx)
}

// stage is how git ls-files -s shows an entry: "100644 ID 0"; "" is none.
func stage(mode uint32, id string) string {
	if mode == 0 {
		return ""
	}
	return fmt.Sprintf("%06o %s 0", mode, id)
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

// undo takes back what finish did before it failed.
func (i *installation) undo(ctx context.Context) error {
	changes, err := i.changed(ctx)
	if err != nil {
		return err
	}
	if err := i.undoFiles(ctx, changes); err != nil {
		return err
	}
	return i.restoreIndex(ctx)
}

// undoFiles gives the files that are exactly as the work has them the content that they had before. No other file is
// touched: what the user did since stays, and what wasn't reached yet needs nothing.
func (i *installation) undoFiles(ctx context.Context, changes []Change) error {
	if i.direct {
		return nil
	}
	undo := *i
	undo.index = filepath.Join(i.trial.Dir, "undo.index")
	reached, err := undo.reached(ctx, changes)
	if err != nil {
		return err
	}
	if _, err := undo.git(ctx, nil, "read-tree", i.before); err != nil {
		return err
	}
	var restore bytes.Buffer
	for _, c := range reached {
		if c.NewMode != 0 && c.NewMode != modeGitlink {
			if err := os.Remove(filepath.Join(i.repo.WorkTree, c.Path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			i.removeEmpty(filepath.Dir(c.Path))
		}
		if c.OldMode != 0 && c.OldMode != modeGitlink {
			restore.WriteString(c.Path + "\x00")
		}
	}
	if restore.Len() == 0 {
		return nil
	}
	_, err = undo.git(ctx, restore.Bytes(), "checkout-index", "-z", "--stdin") // without -f: what is there stays
	return err
}

// reached are the changes whose file is as the work has it, or was being written.
func (i *installation) reached(ctx context.Context, changes []Change) ([]Change, error) {
	if _, err := i.git(ctx, nil, "read-tree", i.after); err != nil {
		return nil, err
	}
	_, _ = i.git(ctx, nil, "update-index", "-q", "--ignore-submodules", "--refresh")
	list, err := i.git(ctx, nil, "ls-files", "-z", "-m", "-d")
	if err != nil {
		return nil, err
	}
	differs := make(map[string]bool)
	for name := range strings.SplitSeq(string(list), "\x00") {
		differs[name] = true
	}
	var reached []Change
	for _, c := range changes {
		_, err := os.Lstat(filepath.Join(i.repo.WorkTree, c.Path))
		switch {
		case err != nil: // removed, or about to be written anew
		case c.NewMode == 0:
			continue
		case differs[c.Path]:
			if begun, err := i.begun(ctx, c); err != nil || !begun {
				if err != nil {
					return nil, err
				}
				continue
			}
		}
		reached = append(reached, c)
	}
	return reached, nil
}

// begun says whether a file is the beginning of what the work has there: git was killed while it wrote it.
func (i *installation) begun(ctx context.Context, c Change) (bool, error) {
	file, err := os.OpenFile(filepath.Join(i.repo.WorkTree, c.Path), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return false, nil // something else than a file
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || c.NewMode == modeGitlink {
		return false, err
	}
	content := &beginning{of: bufio.NewReader(file), same: true}
	if _, err := i.trial.Git(ctx, gitrepo.Call{Args: []string{"cat-file", "blob", c.newID}, Writer: content}); err != nil {
		return false, err
	}
	return content.same && content.ended, nil
}

// beginning compares what is written to it with what it reads, as long as there is something to read.
type beginning struct {
	of          *bufio.Reader
	same, ended bool
}

func (b *beginning) Write(text []byte) (int, error) {
	for _, c := range text {
		if b.ended || !b.same {
			break
		}
		next, err := b.of.ReadByte()
		b.ended = err != nil
		b.same = b.ended || next == c
	}
	return len(text), nil
}

// removeEmpty removes the folder, and those above it, as long as nothing is in them.
func (i *installation) removeEmpty(dir string) {
	for ; dir != "." && dir != "/"; dir = filepath.Dir(dir) {
		if os.Remove(filepath.Join(i.repo.WorkTree, dir)) != nil {
			return
		}
	}
}
