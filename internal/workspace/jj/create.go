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
	undo := func() error { return p.takeAway(context.WithoutCancel(ctx), w) }
	if err = undo(); err == nil { // what a crash left
		err = jjrepo.In(ctx, w, p.Places.Scratch, func(shadow *jjrepo.Shadow) error { return p.make(ctx, shadow, w) })
		if err != nil {
			err = errors.Join(err, undo())
		}
	}
	return wrap("making", w, err)
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
