package jj

import (
	"context"
	"errors"
	"os"

	"forage"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/jjrepo"
)

// Create makes the host's workspace, and the private repository for the sandbox.
func (p Provider) Create(ctx context.Context, w forage.Workspace) (err error) {
	repo, err := jjrepo.Open(ctx, w.Source)
	if err != nil {
		return wrap("making", w, err)
	}
	shadow, err := repo.Shadow(ctx, p.Places.Scratch)
	if err != nil {
		return wrap("making", w, err)
	}
	defer func() { err = wrap("making", w, errors.Join(err, shadow.Close())) }()
	undo := func() error { return p.takeAway(context.WithoutCancel(ctx), shadow, w) }
	if err := undo(); err != nil { // what a crash left
		return err
	}
	if err := p.make(ctx, shadow, w); err != nil {
		return errors.Join(err, undo())
	}
	return nil
}

func (p Provider) make(ctx context.Context, shadow *jjrepo.Shadow, w forage.Workspace) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.MkdirAll(p.Places.Trees, 0o700); err != nil {
		return err
	}
	parent := w.Base
	if parent == "" {
		parent = "root()"
	}
	if err := shadow.AddWorkspace(ctx, name(w), w.Path, []string{parent}); err != nil {
		return err
	}
	if err := noGit(w); err != nil {
		return err
	}
	refs, err := shadow.Refs(ctx)
	if err != nil {
		return err
	}
	err = gitrepo.CreatePrivate(ctx, shadow.Repository.Git, gitrepo.Private{
		Repository: *w.Repository, Branch: w.Branch, Remotes: true, Refs: refs, Scratch: p.Places.Scratch,
	})
	if err != nil {
		return err
	}
	return shadow.CreatePrivate(ctx, jjrepo.Private{
		Repository: *w.Repository, Workspace: name(w), Base: w.Base, TreeState: treeState(w),
	})
}

// takeAway removes all that make makes, as far as it is there.
func (p Provider) takeAway(ctx context.Context, shadow *jjrepo.Shadow, w forage.Workspace) error {
	if err := errors.Join(shadow.ForgetWorkspace(ctx, name(w), w.Path), shadow.DropTip(ctx, w)); err != nil {
		return err
	}
	return p.removeFolders(w)
}

func (p Provider) removeFolders(w forage.Workspace) error {
	if err := gitrepo.RemoveTree(w.Path); err != nil {
		return err
	}
	return gitrepo.RemovePrivate(*w.Repository)
}
