package jjrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// BeforeRemoval brings w up to date and does what how says about work that is nowhere else. Without an error
// w may be removed: its bookmark is gone, or stays for a reason.
func (s *Shadow) BeforeRemoval(ctx context.Context, w forage.Workspace, how workspace.Removal) ([]workspace.Recovery, error) {
	looking, enough := context.WithTimeout(ctx, gitrepo.KeepPatience)
	defer enough()
	_, importErr := s.Import(looking, w)
	status, err := s.Unsaved(looking, w)
	if err := errors.Join(importErr, err); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		status.Problem = err.Error() // the work can't be had as commits
	}
	sandbox := gitrepo.Sandbox(w)
	switch {
	case !status.Unsaved():
		return nil, s.dropBookmark(ctx, w)
	case how == workspace.RemoveSaved:
		return nil, forage.WithHint(
			forage.Errorf(forage.ErrRefused, "work would be lost: %s", lost(w, status)),
			"see it with `forage-ctl diff "+sandbox+"`, bring it over with `forage-ctl apply "+sandbox+"`, or use --force, which keeps it for 30 days")
	case how == workspace.RemoveButBranch && status.CommitsCount > 0:
		kept, err := s.keepAll(ctx, w, sandbox, true)
		stays := workspace.Recovery{Sandbox: sandbox, Store: w.Repository.Store, Ref: "refs/heads/" + w.Branch, Made: time.Now()}
		return append([]workspace.Recovery{stays}, kept...), err
	}
	kept, err := s.keepAll(ctx, w, sandbox, false)
	if err != nil {
		return kept, err
	}
	return kept, s.dropBookmark(ctx, w)
}

// KeepWhole moves all of w to where it is kept, as it is. It is for a repository that is gone.
func KeepWhole(w forage.Workspace) ([]workspace.Recovery, error) {
	sandbox, made := gitrepo.Sandbox(w), time.Now().UTC().Truncate(time.Millisecond)
	names := metadata(w)
	var kept []workspace.Recovery
	if len(names) > 0 {
		var err error
		if kept, err = gitrepo.KeepMetadata(w, sandbox, made, names...); err != nil {
			return kept, err
		}
	}
	if _, err := os.Lstat(w.Path); w.Mode == forage.WorkspaceDirect || errors.Is(err, fs.ErrNotExist) {
		return kept, nil
	}
	all, err := gitrepo.KeepTree(w, sandbox, made) // the same folder
	if err != nil {
		return kept, err
	}
	return all, nil
}

// metadata are the private folders that are there.
func metadata(w forage.Workspace) []string {
	var there []string
	for _, name := range []string{gitFolder, jjFolder} {
		if _, err := os.Lstat(filepath.Join(w.Repository.Dir, name)); err == nil {
			there = append(there, name)
		}
	}
	return there
}

// lost says what is unsaved. Nothing that was named inside is in it.
func lost(w forage.Workspace, status workspace.Status) string {
	var parts []string
	if n := status.CommitsCount; n > 0 {
		parts = append(parts, fmt.Sprintf("commits that only the bookmark %s has: %d", w.Branch, n))
	}
	if n := status.UncommittedCount; n > 0 {
		parts = append(parts, fmt.Sprintf("files with uncommitted changes: %d", n))
	}
	if n := len(status.Elsewhere); n > 0 {
		parts = append(parts, fmt.Sprintf("heads that the host does not have: %d", n))
	}
	if status.Problem != "" {
		parts = append(parts, status.Problem)
	}
	return strings.Join(parts, "; ")
}

// dropBookmark takes away the bookmark that an import made, and has jj no longer show what only it had. One that
// the user moved stays.
func (s *Shadow) dropBookmark(ctx context.Context, w forage.Workspace) error {
	last, err := readState(*w.Repository)
	if err != nil {
		return err
	}
	at, err := s.Git.Branch(ctx, "refs/heads/"+w.Branch)
	if err != nil || at == "" {
		return err
	}
	if err := s.moved(ctx, w, at, last); err != nil {
		if errors.Is(err, errMoved) {
			return nil
		}
		return err
	}
	if _, err := s.Git.Line(ctx, "update-ref", "-d", "refs/heads/"+w.Branch, at); err != nil {
		return err
	}
	if err := s.GitImport(ctx); err != nil {
		return err
	}
	return s.hide(ctx, at)
}
