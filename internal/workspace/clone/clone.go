// Package clone is the clone workspace.Provider: a private clone whose repository on the host is
// Forage's own. A local source lends its objects and isn't changed; from anywhere else it is
// fetched. On top of that repository it is what package worktree makes.
package clone

import (
	"context"
	"errors"
	"os"
	"time"

	"forage"
	"forage/internal/hostile"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/worktree"
)

// Provider is the clone workspace.Provider.
type Provider struct {
	Places  workspace.Places
	Environ []string // the caller's: see gitrepo.Remote
}

var _ workspace.Provider = Provider{}

// Plan decides where the clone will be, and asks the source which commit it starts from.
func (p Provider) Plan(ctx context.Context, request workspace.Request) (forage.Workspace, error) {
	w, layout := gitrepo.Planned(request, forage.WorkspaceClone)
	store := layout.Dir + ".store" // the clone's own repository is beside what is shown inside
	objects, err := p.source(ctx, request, &w)
	if err != nil {
		return forage.Workspace{}, err
	}
	layout.Objects = append([]gitrepo.ObjectDir{{Path: store + "/objects", Borrows: len(objects) > 0}}, objects...)
	w.Repository = &forage.Repository{Kind: forage.RepositoryGit, Dir: layout.Dir, Store: store, Head: w.Branch, Mounts: layout.Mounts()}
	if request.Existing != nil {
		return w, check(w)
	}
	return w, free(w)
}

// source fills in where w comes from, and returns the folders of objects that it borrows.
func (p Provider) source(ctx context.Context, request workspace.Request, w *forage.Workspace) ([]gitrepo.ObjectDir, error) {
	if forage.IsURL(request.Path) {
		w.Source = request.Path
		if request.Existing != nil {
			w.Base = request.Existing.Base
			return nil, nil
		}
		if err := gitrepo.CheckURL(request.Path); err != nil {
			return nil, err
		}
		var err error
		_, w.Base, err = p.remote(*w).Start(ctx, request.Branch)
		return nil, err
	}
	path, r, err := worktree.FindSource(ctx, request)
	if err != nil {
		return nil, err
	}
	w.Source = path
	if request.Existing != nil {
		w.Base = request.Existing.Base
	} else if w.Base, err = gitrepo.StartOf(ctx, r, request.Branch, request.Places.Scratch); err != nil {
		return nil, err
	}
	return r.ObjectDirs()
}

func (p Provider) remote(w forage.Workspace) gitrepo.Remote {
	return gitrepo.Remote{URL: w.Source, Environ: p.Environ}
}

// free refuses folders that are taken, unless an interrupted creation left them.
func free(w forage.Workspace) error {
	if worktree.Interrupted(w) {
		return nil
	}
	return workspace.Free(w.Repository.Store, w.Repository.Dir, w.Path)
}

// check says what has become of a clone that isn't as Create left it.
func check(w forage.Workspace) error {
	if !forage.IsURL(w.Source) {
		if _, err := os.Stat(w.Source); err != nil {
			return forage.WithHint(
				forage.Errorf(forage.ErrRefused, "the repository %s, whose objects this clone borrows, is gone: %w", w.Source, err),
				"it was moved or deleted: move it back")
		}
	}
	return worktree.Check(w)
}

// Create makes the clone's repository, and a worktree of it.
func (p Provider) Create(ctx context.Context, w forage.Workspace) (err error) {
	if err := takeAway(w); err != nil { // of an earlier try: to Plan, there was none, or it wasn't finished
		return err
	}
	if err := worktree.Begin(w); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, takeAway(w))
		}
	}()
	if err := p.fill(ctx, w); err != nil {
		return err
	}
	r, err := gitrepo.Open(ctx, w.Repository.Store)
	if err != nil {
		return err
	}
	return worktree.Build(ctx, r, w, p.Places.Scratch)
}

// fill makes the clone's repository.
func (p Provider) fill(ctx context.Context, w forage.Workspace) error {
	store := gitrepo.Store{Path: w.Repository.Store, Branch: w.Branch, Origin: w.Source, Format: "sha1"}
	if len(w.Base) == 64 {
		store.Format = "sha256"
	}
	if !forage.IsURL(w.Source) {
		source, err := gitrepo.Open(ctx, w.Source)
		if err != nil {
			return err
		}
		store.Source, store.Format = source, source.ObjectFormat
		return gitrepo.CreateStore(ctx, store, p.Places.Scratch)
	}
	if err := gitrepo.CreateStore(ctx, store, p.Places.Scratch); err != nil {
		return err
	}
	if err := p.remote(w).Fetch(ctx, w.Repository.Store); err != nil {
		return err
	}
	if w.Base == "" {
		return nil
	}
	r, err := gitrepo.Open(ctx, w.Repository.Store)
	if err != nil {
		return err
	}
	if _, err := gitrepo.StartOf(ctx, r, w.Base, p.Places.Scratch); err != nil {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "%s has no commit %s on a branch or tag any more", w.Source, w.Base), "try again")
	}
	return nil
}

// Update imports the commits that were made inside.
func (p Provider) Update(ctx context.Context, w forage.Workspace) (workspace.Update, error) {
	if worktree.Ending(w) {
		return workspace.Update{}, nil
	}
	if err := check(w); err != nil {
		return workspace.Update{}, err
	}
	return gitrepo.Import(ctx, w, p.Places.Scratch)
}

// Status says what would be lost. What a local source has by now is not: it is looked at.
func (p Provider) Status(ctx context.Context, w forage.Workspace) (workspace.Status, error) {
	if worktree.Ending(w) {
		return workspace.Status{}, nil
	}
	if err := check(w); err != nil {
		return workspace.Status{Problem: err.Error()}, nil
	}
	if !forage.IsURL(w.Source) {
		if err := p.follow(ctx, w); err != nil {
			return workspace.Status{}, err
		}
	}
	return gitrepo.Unsaved(ctx, w, p.Places.Scratch)
}

func (p Provider) follow(ctx context.Context, w forage.Workspace) error {
	source, err := gitrepo.Open(ctx, w.Source)
	if err != nil {
		return err
	}
	store, err := gitrepo.Open(ctx, w.Repository.Store)
	if err != nil {
		return err
	}
	return gitrepo.Follow(ctx, store, source, p.Places.Scratch)
}

// Remove takes away the clone. Work that is kept stays in the clone's own repository, which is
// moved aside: the source isn't changed.
func (p Provider) Remove(ctx context.Context, w forage.Workspace, how workspace.Removal) ([]workspace.Recovery, error) {
	if how == workspace.RemoveUnused || worktree.Ending(w) {
		return nil, takeAway(w)
	}
	p.askRemote(ctx, w)
	kept, _, err := gitrepo.BeforeRemoval(ctx, p, w, how, p.Places)
	if err != nil {
		return kept, err
	}
	aside := ""
	if len(kept) > 0 {
		aside = p.Places.Kept(gitrepo.Sandbox(w), time.Now(), w.Name+".git")
	}
	if err := gitrepo.BeginRemoval(*w.Repository, gitrepo.Removal{Aside: aside}); err != nil {
		return kept, err
	}
	for i := range kept {
		if kept[i].Store == w.Repository.Store {
			kept[i].Store = aside
		}
	}
	return kept, takeAway(w)
}

// takeAway ends what Create or Remove has begun.
func takeAway(w forage.Workspace) error {
	if removal, _ := gitrepo.ReadRemoval(*w.Repository); removal.Aside != "" {
		if err := gitrepo.MoveStore(w.Repository.Store, removal.Aside); err != nil {
			return err
		}
	}
	if err := errors.Join(hostile.RemoveAll(w.Path), hostile.RemoveAll(w.Repository.Store)); err != nil {
		return err
	}
	return gitrepo.RemovePrivate(*w.Repository)
}

// askPatience is how long a remote may take to say what it has by now: some accept a connection and
// never say anything.
var askPatience = time.Minute

// askRemote looks whether commits that seem to be nowhere else were pushed meanwhile.
func (p Provider) askRemote(ctx context.Context, w forage.Workspace) {
	if !forage.IsURL(w.Source) {
		return
	}
	if status, err := p.Status(ctx, w); err == nil && status.CommitsCount == 0 && len(status.Elsewhere) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	_ = p.remote(w).Fetch(ctx, w.Repository.Store) // not to be had: then they count as unsaved
}
