package jjrepo

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// Import brings the work in the private repository to the user's, at gitrepo.TipRef. jj doesn't look at a ref of that
// kind: no commit of the user's is rebased, and no bookmark moves, before `apply`.
func (s *Shadow) Import(ctx context.Context, w forage.Workspace) (_ workspace.Update, err error) {
	unlock, err := lock(ctx, stateFile(*w.Repository)+".lock") // the supervisor imports, and so does whoever looks
	if err != nil {
		return workspace.Update{}, err
	}
	defer unlock()
	last, err := readState(*w.Repository)
	if err != nil {
		return workspace.Update{}, err
	}
	at, err := s.Git.Branch(ctx, gitrepo.TipRef(w))
	if err != nil {
		return workspace.Update{}, err
	}
	same := workspace.Update{Before: at, After: at}
	now, err := operations(filepath.Join(w.Repository.Dir, jjFolder))
	if err != nil || at == last.Tip && slices.Equal(now, last.Operations) {
		return same, err
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
	return workspace.Update{Before: at, After: tip}, state{Tip: tip, Operations: in.operations}.write(*w.Repository)
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
