package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"forage/internal/deadline"
)

// Gitlinks are the paths at which an index file of the host's has submodules, populated or not.
func (r *Repository) Gitlinks(ctx context.Context, index, scratch string) (links []string, err error) {
	s, err := r.Shadow(scratch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	copied := filepath.Join(s.Dir, "links.index")
	if err := CopyIndex(index, copied); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	return s.gitlinks(ctx, copied)
}

func (s *Shadow) gitlinks(ctx context.Context, index string) (links []string, err error) {
	out, err := s.Git(ctx, Call{Args: []string{"ls-files", "--stage", "-z"}, Index: index})
	for entry := range fields(out) {
		if head, path, _ := strings.Cut(entry, "\t"); strings.HasPrefix(head, "160000 ") {
			links = append(links, path)
		}
	}
	return links, err
}

// indexPause is how often an index is tried that another git has locked, as editors' do all the time.
const indexPause = 20 * time.Millisecond

// bringIndexTo brings the index of a working folder that is linked to the host's repository to a
// commit, so that plain git there says what differs from it. Files are not touched, and what the
// index knows of them stays. Submodules are marked as not to be looked at: see HoldGitlinks. A
// folder that isn't linked (any more) is no error.
func (s *Shadow) bringIndexTo(ctx context.Context, folder, commit string) error {
	index := s.Repository.IndexOf(ctx, folder)
	if index == "" {
		return nil
	}
	for begun := time.Now(); ; {
		if busy, err := s.settle(ctx, index, folder, commit); !busy {
			return err
		}
		if time.Since(begun) > deadline.End {
			return lockedHint(fmt.Errorf("%s.lock is there", index), index)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(indexPause):
		}
	}
}

// settle works on a copy, and puts it in the place of the index by git's own protocol, if that is
// still as it was.
func (s *Shadow) settle(ctx context.Context, index, folder, commit string) (busy bool, err error) {
	lock, copied := index+".lock", index+"."+filepath.Base(s.Dir)
	if !gone(lock) { // before it is worked for in vain
		return true, nil
	}
	defer os.Remove(copied)
	before, _ := os.Stat(index)
	args := []string{"read-tree", "-m", "-i", commit}
	if err := CopyIndex(index, copied); errors.Is(err, fs.ErrNotExist) {
		args = []string{"read-tree", commit}
	} else if err != nil {
		return false, err
	}
	if _, err := s.Git(ctx, Call{Args: args, WorkTree: folder, Index: copied}); err != nil {
		return false, err
	}
	if err := s.passGitlinks(ctx, folder, copied); err != nil {
		return false, err
	}
	if err := os.Link(copied, lock); err != nil {
		return errors.Is(err, fs.ErrExist), err
	}
	now, _ := os.Stat(index)
	if (now == nil) != (before == nil) || now != nil && (!os.SameFile(now, before) || now.Size() != before.Size() || !now.ModTime().Equal(before.ModTime())) {
		return true, os.Remove(lock)
	}
	return false, os.Rename(lock, index)
}

// passGitlinks marks the submodules of an index as not to be looked at: skip-worktree and, since
// git takes that away in a sparse checkout where there is a folder, assume-unchanged.
func (s *Shadow) passGitlinks(ctx context.Context, folder, index string) error {
	links, err := s.gitlinks(ctx, index)
	if err != nil || len(links) == 0 {
		return err
	}
	list := []byte(strings.Join(links, "\x00") + "\x00")
	for _, mark := range []string{"--skip-worktree", "--assume-unchanged"} {
		if err == nil {
			_, err = s.Git(ctx, Call{Args: []string{"update-index", mark, "-z", "--stdin"}, Stdin: list, WorkTree: folder, Index: index})
		}
	}
	return err
}
