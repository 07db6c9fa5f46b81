package review

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

func (t *target) index() string { return filepath.Join(t.repo.GitDir, "index") }

// maxIndex bounds the user's index, in bytes: millions of files.
const maxIndex = 1 << 30

func (t *target) readIndex() ([]byte, error) { return workspace.ReadFile(t.index(), 0, maxIndex) }

// prepared is where an index is written before it becomes, by a hard link, the lock of the user's: so the lock that a killed
// apply leaves is known for ours.
func (t *target) prepared() string { return t.index() + ".forage-" + t.sandbox }

// unlockIndex lets go of the user's index, if it is this sandbox's apply that has its lock.
func (t *target) unlockIndex() error {
	ours, err := os.Lstat(t.prepared())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	lock := t.index() + ".lock"
	if there, err := os.Lstat(lock); err == nil && os.SameFile(ours, there) {
		if err := os.Remove(lock); err != nil {
			return err
		}
	}
	return os.Remove(t.prepared())
}

// exchangeIndex replaces the user's index by another, nil is none, under git's own lock.
func (i *installation) exchangeIndex(ctx context.Context, from, to []byte, made time.Time) (err error) {
	name := i.target.index()
	lock := name + ".lock"
	defer func() { err = errors.Join(err, i.unlockIndex()) }()
	if err := i.prepareIndex(to, made); err != nil {
		return err
	}
	if err := os.Link(i.prepared(), lock); err != nil {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "locking the index: %w", err),
			"wait for the git command that is running there, and apply again; if there is none, remove "+lock)
	}
	now, err := i.readIndex()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	repo, err := gitrepo.Open(ctx, i.repo.WorkTree) // no git changes branches while the index is locked
	if err != nil {
		return err
	}
	switch {
	case repo.Head != i.branch:
		return forage.Errorf(forage.ErrRefused, "%s is not checked out in %s any more: apply again", i.branch, i.repo.WorkTree)
	case !bytes.Equal(now, from):
		return forage.Errorf(forage.ErrRefused, "the index of %s was changed meanwhile: apply again", i.repo.WorkTree)
	case to == nil:
		return os.Remove(name)
	}
	return os.Rename(lock, name)
}

// prepareIndex writes what is to be the user's index, with the time at which it was made and the mode of theirs.
func (i *installation) prepareIndex(text []byte, made time.Time) error {
	file, err := os.OpenFile(i.prepared(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if i.originalInfo != nil {
		err = errors.Join(err, file.Chmod(i.originalInfo.Mode().Perm()))
	}
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Chtimes(i.prepared(), made, made)
}
