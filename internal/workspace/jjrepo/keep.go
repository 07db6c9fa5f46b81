package jjrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// Keep makes refs in the host's repository, below gitrepo.RecoveryRefs, that hold all of w's work that nothing else has:
// uncommitted files as one more commit, and each head. None when there is nothing to keep.
func (s *Shadow) Keep(ctx context.Context, w forage.Workspace, sandbox string, uncommittedOnly bool) (kept []workspace.Recovery, err error) {
	in, err := s.look(ctx, w)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.staging.Close()) }()
	saved, err := s.saved(ctx, w)
	if err != nil {
		return nil, err
	}
	at, err := s.Git.Branch(ctx, "refs/heads/"+w.Branch)
	if err != nil {
		return nil, err
	}
	tips := slices.Clone(in.others)
	if uncommittedOnly {
		saved = append(saved, notRoot([]string{at})...)
	}
	top, err := s.withFiles(ctx, in, w, sandbox)
	if err != nil {
		return nil, err
	}
	tips = slices.Compact(append([]string{top, at}, tips...))
	now := time.Now().UTC()
	for _, tip := range notRoot(tips) {
		if tip == "" {
			continue
		}
		fresh, err := in.staging.Line(ctx, append([]string{"rev-list", "--max-count=1", tip, "--not"}, saved...)...)
		if err != nil {
			return kept, err
		}
		if fresh == "" {
			continue
		}
		if err := in.staging.Hand(ctx, []string{tip}); err != nil {
			return kept, err
		}
		ref := fmt.Sprintf("%s%s/%s/%s", gitrepo.RecoveryRefs, sandbox, now.Format("2006-01-02T150405Z"), strconv.Itoa(len(kept)))
		if err := s.Git.MoveBranch(ctx, ref, "", tip, "forage: kept"); err != nil {
			return kept, err
		}
		kept = append(kept, workspace.Recovery{Sandbox: sandbox, Store: w.Repository.Store, Ref: ref, Made: now})
		saved = append(saved, tip)
	}
	return kept, nil
}

// withFiles is the work's commit, or one more on top of it with the files that it doesn't have.
func (s *Shadow) withFiles(ctx context.Context, in *inside, w forage.Workspace, sandbox string) (string, error) {
	if w.Mode == forage.WorkspaceDirect || w.ReadOnly {
		return in.work, nil
	}
	tree, err := s.tree(ctx, in, w)
	if errors.Is(err, fs.ErrNotExist) {
		if in.dirty != "" {
			return in.dirty, nil
		}
		return in.work, nil
	}
	if err != nil {
		return "", err
	}
	base, err := treeOf(ctx, in.staging, in.work)
	if err != nil || tree == base {
		return in.work, err
	}
	args := []string{"commit-tree", "-m", sandbox + ": uncommitted work", tree}
	if in.work != "" {
		args = append(args, "-p", in.work)
	}
	id := []string{"GIT_AUTHOR_NAME=forage", "GIT_AUTHOR_EMAIL=forage@localhost", "GIT_COMMITTER_NAME=forage", "GIT_COMMITTER_EMAIL=forage@localhost"}
	out, err := in.staging.Git(ctx, gitrepo.Call{Args: args, Env: id})
	return trim(out), err
}
