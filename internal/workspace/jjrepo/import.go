package jjrepo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// Import brings the work in the private repository to the user's, at gitrepo.TipRef. jj doesn't look at a ref of that
// kind: no commit of the user's is rebased, and no bookmark moves, before `apply`.
func (s *Shadow) Import(ctx context.Context, w forage.Workspace) (_ workspace.Update, err error) {
	// What was brought last, and from which operations, is in a file of ours that is not shown inside.
	note, err := os.OpenFile(filepath.Join(w.Repository.Dir, "imported"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return workspace.Update{}, err
	}
	defer note.Close()
	if err := workspace.Flock(ctx, note, unix.LOCK_EX); err != nil { // the supervisor imports, and so does each command
		return workspace.Update{}, err
	}
	at, err := s.Git.Branch(ctx, gitrepo.TipRef(w))
	if err != nil {
		return workspace.Update{}, err
	}
	same := workspace.Update{Before: at, After: at}
	now, err := operations(filepath.Join(w.Repository.Dir, jjFolder))
	if err != nil {
		return same, err
	}
	last := make([]byte, maxSmall)
	n, _ := note.ReadAt(last, 0)
	if string(last[:n]) == strings.Join(append(now, at), "\n") {
		return same, nil
	}
	in, err := s.look(ctx, w)
	if err != nil {
		return same, err
	}
	defer func() { err = errors.Join(err, in.staging.Close()) }()
	tip := at
	if news, err := in.news(ctx, w, at); err != nil {
		return same, err
	} else if news {
		tip = in.work
		if err := in.staging.Hand(ctx, []string{tip}); err != nil {
			return same, advise(err)
		}
		if err := s.Git.MoveBranch(ctx, gitrepo.TipRef(w), at, tip, "forage: commits from inside"); err != nil {
			return same, err
		}
	}
	err = note.Truncate(0)
	if err == nil {
		_, err = note.WriteAt([]byte(strings.Join(append(in.operations, tip), "\n")), 0)
	}
	return workspace.Update{Before: at, After: tip}, err
}

// news says whether the tip has to be moved, or made: only for commits that the repository lacks.
func (in *inside) news(ctx context.Context, w forage.Workspace, at string) (bool, error) {
	if in.work == "" || at != "" || w.Base == "" {
		return in.work != "" && at != in.work, nil
	}
	fresh, err := in.staging.Line(ctx, "rev-list", "--max-count=1", in.work, "--not", w.Base)
	return fresh != "", err
}

// DropTip takes away what Import has made.
func (s *Shadow) DropTip(ctx context.Context, w forage.Workspace) error {
	ref := gitrepo.TipRef(w)
	at, err := s.Git.Branch(ctx, ref)
	if err != nil || at == "" {
		return err
	}
	_, err = s.Git.Line(ctx, "update-ref", "-d", ref, at)
	return err
}
