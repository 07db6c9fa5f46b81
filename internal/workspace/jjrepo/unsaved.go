package jjrepo

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// Unsaved says which work is nowhere but in w. What Import has not brought in counts as Elsewhere.
func (s *Shadow) Unsaved(ctx context.Context, w forage.Workspace) (status workspace.Status, err error) {
	at, err := s.Git.Branch(ctx, gitrepo.TipRef(w))
	if err != nil {
		return status, err
	}
	in, err := s.look(ctx, w)
	if err != nil {
		return status, err
	}
	defer func() { err = errors.Join(err, in.staging.Close()) }()
	if err := s.commits(ctx, in, w, at, &status); err != nil {
		return status, err
	}
	if w.Mode == forage.WorkspaceDirect {
		return status, nil
	}
	err = s.uncommitted(ctx, in, w, &status)
	return status, err
}

// commits fills in what the bookmark alone has, and what not even the bookmark has.
func (s *Shadow) commits(ctx context.Context, in *inside, w forage.Workspace, at string, status *workspace.Status) error {
	saved, err := s.saved(ctx, w)
	if err != nil {
		return err
	}
	if at != "" {
		status.Commits, status.CommitsCount, err = in.staging.Commits(ctx, append([]string{at, "--not"}, saved...))
		if err != nil {
			return err
		}
	}
	others := in.others
	if in.work != "" && in.work != at {
		others = append([]string{in.work}, others...)
	}
	for _, id := range others {
		if len(status.Elsewhere) == workspace.MaxListed { // whoever is inside can make any number
			break
		}
		args := append([]string{"log", "-1", "--format=%h %<(300,trunc)%s", id, "--not"}, append(notRoot([]string{at}), saved...)...)
		line, err := in.staging.Line(ctx, args...)
		if err != nil {
			return err
		}
		if line != "" {
			status.Elsewhere = append(status.Elsewhere, "commit "+line)
		}
	}
	return nil
}

// saved are revisions of git that keep commits without w's bookmark: other branches, tags, remotes, jj's own bookmarks and
// the working copies of other workspaces.
func (s *Shadow) saved(ctx context.Context, w forage.Workspace) ([]string, error) {
	refs, err := s.Refs(ctx)
	if err != nil {
		return nil, err
	}
	copies, err := s.WorkingCopies(ctx)
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for name, id := range refs.Values {
		keeps := strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/") || strings.HasPrefix(name, "refs/remotes/")
		if keeps && name != "refs/heads/"+w.Branch {
			ids[id] = true
		}
	}
	for name, id := range copies {
		if name != filepath.Base(w.Path) || w.Mode == forage.WorkspaceDirect {
			ids[id] = true
		}
	}
	revisions := []string{"--exclude=" + w.Branch, "--branches", "--tags", "--remotes"}
	for id := range ids {
		revisions = append(revisions, id)
	}
	return append(notRoot(revisions), notRoot([]string{w.Base})...), nil
}

// uncommitted fills in the files that differ from the work's commit.
func (s *Shadow) uncommitted(ctx context.Context, in *inside, w forage.Workspace, status *workspace.Status) error {
	if w.ReadOnly {
		return nil
	}
	if !exists(w.Path) {
		if in.dirty != "" { // the files are gone, but not the last copy of them
			status.Elsewhere = append(status.Elsewhere, "the working copy "+in.dirty[:12])
		}
		return nil
	}
	names, err := in.staging.ChangedFiles(ctx, w, in.work)
	if err == nil {
		names, err = s.withoutTaken(ctx, in, w, names)
	}
	status.Uncommitted, status.UncommittedCount = names[:min(len(names), workspace.MaxListed)], len(names)
	return err
}

// withoutTaken are the changed files that the user has not taken over as they are: see gitrepo.NoteTaken.
func (s *Shadow) withoutTaken(ctx context.Context, in *inside, w forage.Workspace, changed []string) ([]string, error) {
	commit, _, err := gitrepo.Taken(w)
	if err != nil || commit == "" || len(changed) == 0 {
		return changed, err
	}
	saved, err := s.saved(ctx, w)
	if err != nil {
		return nil, err
	}
	if line, err := in.staging.Line(ctx, append([]string{"rev-list", "--max-count=1", commit, "--not"}, saved...)...); err != nil || line != "" {
		return changed, nil // it is gone, or at no bookmark any more
	}
	others, err := in.staging.ChangedFiles(ctx, w, commit)
	return gitrepo.InBoth(changed, others), err
}
