package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"forage"
)

// indexTries is how often an index that is locked or changed meanwhile is tried again, and indexPause after how long: for some seconds.
const (
	indexTries = 100
	indexPause = 20 * time.Millisecond
)

// bringIndexTo brings the index of a working folder that is linked to the host's repository to a commit, so that plain
// git there says what differs from it. Files are not touched, and what the index knows of them stays. Submodules
// are marked as not to be looked at: the user's git would otherwise run git in
// a folder that was written inside, with the configuration that it finds there.
// A folder that isn't linked (any more) is no error.
func (s *Shadow) bringIndexTo(ctx context.Context, folder, commit string) error {
	admin, err := s.Repository.adminDir(folder)
	if err != nil || admin == "" {
		return err
	}
	index := filepath.Join(admin, "index")
	for range indexTries {
		err := s.settleIndex(ctx, index, folder, commit)
		if !errors.Is(err, errIndexBusy) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(indexPause):
		}
	}
	return forage.WithHint(forage.Errorf(forage.ErrRefused, "%s is locked by another git", index),
		"try again when it has ended; if none is running, remove "+index+".lock")
}

var errIndexBusy = errors.New("the index is in use")

// settleIndex works on a copy: the lock is held for the moment of the exchange only.
func (s *Shadow) settleIndex(ctx context.Context, index, folder, commit string) error {
	if _, err := os.Lstat(index + ".lock"); err == nil { // before it is worked for in vain
		return errIndexBusy
	}
	copied := filepath.Join(s.Dir, "settle.index")
	before, err := os.Stat(index)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Remove(copied); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if before != nil {
		if err := CopyIndex(index, copied); err != nil {
			return err
		}
	}
	args := []string{"read-tree", "-m", "-i", commit}
	if before == nil {
		args = []string{"read-tree", commit}
	}
	if _, err := s.Git(ctx, Call{Args: args, WorkTree: folder, Index: copied}); err != nil {
		return err
	}
	if err := s.passGitlinks(ctx, folder, copied); err != nil {
		return err
	}
	return exchange(copied, index, before)
}

// exchange puts one index in the place of another by git's own protocol, if that is still as it was.
func exchange(from, index string, before fs.FileInfo) (err error) {
	lock, err := os.OpenFile(index+".lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return errIndexBusy
	}
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(lock.Name()))
		}
	}()
	now, err := os.Stat(index)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return errors.Join(err, lock.Close())
	case (now == nil) != (before == nil),
		now != nil && (!os.SameFile(now, before) || now.Size() != before.Size() || !now.ModTime().Equal(before.ModTime())):
		return errors.Join(errIndexBusy, lock.Close())
	}
	file, err := os.Open(from)
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	made, err := file.Stat()
	if err == nil {
		_, err = io.Copy(lock, file)
	}
	if err := errors.Join(err, file.Close(), lock.Close()); err != nil {
		return err
	}
	if err := os.Chtimes(lock.Name(), made.ModTime(), made.ModTime()); err != nil { // see CopyIndex
		return err
	}
	return os.Rename(lock.Name(), index)
}

// passGitlinks marks the submodules of an index as not to be looked at: skip-worktree and, since git takes
// that away in a sparse checkout where there is a folder, assume-unchanged.
func (s *Shadow) passGitlinks(ctx context.Context, folder, index string) error {
	links, err := s.Repository.Gitlinks(ctx, index, s.Dir)
	if err != nil {
		return err
	}
	return s.mark(ctx, folder, index, links, "--skip-worktree", "--assume-unchanged")
}

// mark gives names in an index these marks of git-update-index(1).
func (s *Shadow) mark(ctx context.Context, folder, index string, names []string, marks ...string) error {
	if len(names) == 0 {
		return nil
	}
	list := []byte(strings.Join(names, "\x00") + "\x00")
	for _, mark := range marks {
		if _, err := s.Git(ctx, Call{Args: []string{"update-index", mark, "-z", "--stdin"}, Stdin: list, WorkTree: folder, Index: index}); err != nil {
			return err
		}
	}
	return nil
}

// adminDir is the folder in the repository that stands for a linked working folder; "" if there is none.
func (r *Repository) adminDir(folder string) (string, error) {
	entries, err := os.ReadDir(filepath.Join(r.Common, "worktrees"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("looking for the working folder %s: %w", folder, err)
	}
	for _, entry := range entries {
		admin := filepath.Join(r.Common, "worktrees", entry.Name())
		if pointer, err := readPointer(filepath.Join(admin, "gitdir"), ""); err == nil && filepath.Clean(pointer) == filepath.Join(folder, ".git") {
			return admin, nil
		}
	}
	return "", nil
}
