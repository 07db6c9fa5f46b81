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
// w may be removed.
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
		return nil, s.DropTip(ctx, w)
	case how == workspace.RemoveSaved:
		return nil, forage.WithHint(
			forage.Errorf(forage.ErrRefused, "work would be lost: %s", lost(status)),
			"see it with `forage-ctl diff "+sandbox+"`, bring it over with `forage-ctl apply "+sandbox+"`, or use --force, which keeps it for 30 days")
	}
	kept, err := s.keepAll(ctx, w, sandbox)
	if err != nil {
		return kept, err
	}
	return kept, s.DropTip(ctx, w)
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
func lost(status workspace.Status) string {
	var parts []string
	if n := status.CommitsCount; n > 0 {
		parts = append(parts, fmt.Sprintf("commits that were not applied: %d", n))
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
