// Package copied is the copy workspace.Provider: a private copy of a folder that has no repository. Only fork makes
// such a workspace: Create makes an empty folder, which is filled from a snapshot of the first sandbox; the
// listing of that is the base with which the work is compared.
package copied

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/snapshot"
)

// Provider is the copy workspace.Provider.
type Provider struct {
	Places workspace.Places
}

var _ workspace.Provider = Provider{}

// Plan decides where the copy of the folder request.Path will be.
func (Provider) Plan(_ context.Context, request workspace.Request) (forage.Workspace, error) {
	w := forage.Workspace{
		Name: request.Name, Mode: forage.WorkspaceCopy, Target: request.Target, ReadOnly: request.ReadOnly,
		Path: workspace.Resolved(request.Places.Tree(request.Sandbox, request.Name)), Source: request.Path,
	}
	if request.Existing != nil {
		return w, nil
	}
	if _, err := os.Lstat(w.Path); !errors.Is(err, os.ErrNotExist) {
		return w, errors.Join(err, taken(w))
	}
	return w, nil
}

func taken(w forage.Workspace) error {
	return forage.WithHint(forage.Errorf(forage.ErrRefused, "the folder %s is there already", w.Path),
		"forage-ctl gc shows and removes what is left over")
}

// Base is the file in which the listing of what a copy was made from belongs.
func (p Provider) Base(w forage.Workspace) string { return filepath.Join(p.private(w), "base") }

// private is a folder of ours beside the tree, which is not shown inside.
func (p Provider) private(w forage.Workspace) string {
	sandbox, part := named(w)
	return p.Places.Repository(sandbox, part)
}

// named is whose tree it is: workspace.Places.Tree.
func named(w forage.Workspace) (sandbox, part string) {
	sandbox, part, ok := strings.Cut(filepath.Base(w.Path), ".")
	if !ok {
		part = workspace.Main
	}
	return sandbox, part
}

// Create makes the folder, empty.
func (p Provider) Create(_ context.Context, w forage.Workspace) error {
	if err := os.MkdirAll(filepath.Dir(w.Path), 0o700); err != nil {
		return fmt.Errorf("making the copy: %w", err)
	}
	err := os.Mkdir(w.Path, 0o700)
	if errors.Is(err, os.ErrExist) {
		return taken(w)
	}
	if err == nil {
		if err = os.MkdirAll(p.private(w), 0o700); err != nil {
			err = errors.Join(err, os.Remove(w.Path))
		}
	}
	if err != nil {
		return fmt.Errorf("making the copy: %w", err)
	}
	return nil
}

// Update has nothing to bring: there is no repository.
func (Provider) Update(context.Context, forage.Workspace) (workspace.Update, error) {
	return workspace.Update{}, nil
}

// Status names the files that differ from what was copied, and that the source has not got as they are.
func (p Provider) Status(ctx context.Context, w forage.Workspace) (workspace.Status, error) {
	var status workspace.Status
	if _, err := os.Lstat(w.Path); errors.Is(err, os.ErrNotExist) {
		return status, nil // nothing is left that could be lost
	}
	found, err := snapshot.Compare(ctx, p.Base(w), snapshot.Folder{Path: w.Path}, filepath.Join(p.private(w), "now"))
	if err == nil {
		found = without(ctx, found, w)
	}
	if ctx.Err() != nil {
		return status, context.Cause(ctx)
	}
	if err != nil {
		return workspace.Status{Problem: err.Error()}, nil
	}
	for _, d := range found {
		if status.UncommittedCount++; status.UncommittedCount <= workspace.MaxListed {
			status.Uncommitted = append(status.Uncommitted, d.Path)
		}
	}
	return status, nil
}

// Remove takes the copy away. With work in it, it is moved aside for workspace.RecoveryKept.
func (p Provider) Remove(ctx context.Context, w forage.Workspace, how workspace.Removal) ([]workspace.Recovery, error) {
	var kept []workspace.Recovery
	if how != workspace.RemoveUnused {
		status, err := p.Status(ctx, w)
		switch {
		case err != nil:
			return nil, err
		case status.Problem != "" && how == workspace.RemoveSaved:
			return nil, forage.Errorf(forage.ErrRefused, "whether %s has changes is not known: %s", w.Path, status.Problem)
		case status.Unsaved() && how == workspace.RemoveSaved:
			return nil, forage.Errorf(forage.ErrRefused, "%s has changes that %s has not", w.Path, w.Source)
		case status.Unsaved():
			if kept, err = p.keep(w); err != nil {
				return nil, err
			}
		}
	}
	return kept, p.takeAway(w)
}

// takeAway removes the copy from one moment to the next: what is half gone would be taken for work.
func (p Provider) takeAway(w forage.Workspace) error {
	removed := filepath.Join(p.private(w), "removed")
	if err := errors.Join(os.MkdirAll(p.private(w), 0o700), gitrepo.RemoveTree(removed)); err != nil {
		return err
	}
	if err := os.Rename(w.Path, removed); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return gitrepo.RemoveTree(p.private(w))
}

// keep moves the tree aside: it is where gc finds it when its time is over.
func (p Provider) keep(w forage.Workspace) ([]workspace.Recovery, error) {
	sandbox, part := named(w)
	now := time.Now().UTC()
	folder := p.Places.Kept(sandbox, now, part+".files")
	err := os.MkdirAll(filepath.Dir(folder), 0o700)
	if err == nil {
		err = os.Rename(w.Path, folder)
	}
	if err != nil {
		return nil, fmt.Errorf("keeping the work: %w", err)
	}
	return []workspace.Recovery{{Sandbox: sandbox, Folder: folder, Made: now}}, nil
}
