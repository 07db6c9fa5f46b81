package jj

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/jjrepo"
)

// Provider is the jj workspace.Provider.
type Provider struct {
	Places workspace.Places
}

var _ workspace.Provider = Provider{}

// Plan finds the repository and the commit to start from, and that the names are free.
func (p Provider) Plan(ctx context.Context, request workspace.Request) (_ forage.Workspace, err error) {
	repo, err := open(ctx, request.Path)
	if err != nil {
		return forage.Workspace{}, err
	}
	w, err := p.layOut(repo, request)
	if err != nil {
		return forage.Workspace{}, err
	}
	shadow, err := repo.Shadow(ctx, p.Places.Scratch)
	if err != nil {
		return forage.Workspace{}, err
	}
	defer func() { err = errors.Join(err, shadow.Close()) }()
	if old := request.Existing; old != nil && old.Mode == w.Mode && old.Path == w.Path {
		w.Base = old.Base
		return w, nil
	}
	if err := free(ctx, shadow, w); err != nil {
		return forage.Workspace{}, err
	}
	w.Base, err = shadow.Start(ctx, request.Branch)
	return w, err
}

// open finds the repository that the user means.
func open(ctx context.Context, path string) (*jjrepo.Repository, error) {
	repo, err := jjrepo.Open(ctx, path)
	switch {
	case err == nil:
		return repo, nil
	case errors.Is(err, os.ErrNotExist):
		return nil, forage.Errorf(forage.ErrUsage, "opening the jj repository: %w", err)
	case !errors.Is(err, jjrepo.ErrNoRepository):
		return nil, err
	}
	hint := "name the folder that has .jj in it, or make one: jj git init"
	resolved := workspace.Resolved(path)
	if _, gitErr := gitrepo.Open(ctx, path); gitErr == nil {
		hint = "for a git repository use --git-worktree; or let jj use it as well: jj git init --colocate"
	} else if root := gitrepo.JJAbove(resolved); root != "" {
		hint = "the repository begins at " + root + ": name that folder"
	} else if root, _, _ := gitrepo.Around(resolved); root != "" {
		hint = "git has the repository " + root + ": name it with --git-worktree"
	}
	return nil, forage.WithHint(forage.Errorf(forage.ErrUsage, "opening the jj repository: %w", err), hint)
}

// layOut decides names, folders and mounts.
func (p Provider) layOut(repo *jjrepo.Repository, request workspace.Request) (forage.Workspace, error) {
	tree := workspace.Resolved(p.Places.Tree(request.Sandbox, request.Name))
	w := forage.Workspace{
		Name: request.Name, Mode: forage.WorkspaceJJ, Path: tree, Target: request.Target, ReadOnly: request.ReadOnly,
		Source: repo.Root, Branch: gitrepo.Branch(request.Sandbox, request.Name),
	}
	var err error
	w.Repository, err = repo.PlanPrivate(gitrepo.Layout{
		Dir: workspace.Resolved(p.Places.Repository(request.Sandbox, request.Name)), Part: request.Name, Target: request.Target, ReadOnly: request.ReadOnly,
	})
	return w, err
}

// name is what the workspace is called in jj, on the host and inside.
func name(w forage.Workspace) string { return filepath.Base(w.Path) }

// free refuses names that are taken.
func free(ctx context.Context, shadow *jjrepo.Shadow, w forage.Workspace) error {
	copies, err := shadow.WorkingCopies(ctx)
	if err != nil {
		return err
	}
	if copies[name(w)] != "" {
		return forage.WithHint(forage.Errorf(forage.ErrRefused, "%s has a jj workspace %q already", w.Source, name(w)),
			"choose another name, or: jj workspace forget "+name(w))
	}
	return workspace.Free(w.Path)
}

// treeState is where jj keeps what it knows of the files in a folder.
func treeState(w forage.Workspace) string {
	return path.Join(w.Path, ".jj/working_copy/tree_state")
}

// wrap says which workspace an error is about.
func wrap(doing string, w forage.Workspace, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s the jj workspace %s: %w", doing, name(w), err)
}
