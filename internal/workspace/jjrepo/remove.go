package jjrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"forage"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
)

// Remove does what how says about work of w that is nowhere else, and then has takeAway remove what was made. Its shadow is
// nil where the user's repository is gone.
func Remove(ctx context.Context, w forage.Workspace, how workspace.Removal, scratch string, takeAway func(*Shadow) error) (kept []workspace.Recovery, err error) {
	begun := gitrepo.RemovalBegun(w) || how == workspace.RemoveUnused
	if _, gone := Open(ctx, root(w)); gone != nil && ctx.Err() == nil {
		switch {
		case begun:
		case how == workspace.RemoveSaved:
			return nil, forage.WithHint(
				forage.Errorf(forage.ErrRefused, "the repository %s of this workspace is gone, and its work can't be looked at: %w", root(w), gone),
				"move it back; or use --force, which keeps all of the workspace for 30 days")
		default:
			if kept, err = KeepWhole(w); err != nil {
				return kept, err
			}
		}
		return kept, takeAway(nil)
	}
	err = In(ctx, w, scratch, func(s *Shadow) error {
		if !begun {
			if kept, err = s.beforeRemoval(ctx, w, how); err != nil {
				return err
			}
			if err := gitrepo.BeginRemoval(*w.Repository, gitrepo.Removal{}); err != nil {
				return err
			}
		}
		return takeAway(s)
	})
	return kept, err
}

// beforeRemoval brings w up to date and does what how says about work that is nowhere else. Without an error
// w may be removed.
func (s *Shadow) beforeRemoval(ctx context.Context, w forage.Workspace, how workspace.Removal) ([]workspace.Recovery, error) {
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
	if !status.Unsaved() {
		return nil, s.DropTip(ctx, w)
	}
	if how == workspace.RemoveSaved {
		sandbox := gitrepo.Sandbox(w)
		return nil, forage.WithHint(
			forage.Errorf(forage.ErrRefused, "work would be lost: %s", lost(status)),
			"see it with `forage-ctl diff "+sandbox+"`, bring it over with `forage-ctl apply "+sandbox+"`, or use --force, which keeps it for 30 days")
	}
	kept, err := s.Keep(ctx, w)
	if err != nil {
		return kept, err
	}
	return kept, s.DropTip(ctx, w)
}

// lost says what is unsaved. Nothing that was named inside is in it.
func lost(status workspace.Status) string {
	var parts []string
	for what, n := range map[string]int{
		"commits that were not applied: %d": status.CommitsCount, "files with uncommitted changes: %d": status.UncommittedCount,
		"heads that the host does not have: %d": len(status.Elsewhere),
	} {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(what, n))
		}
	}
	slices.Sort(parts)
	if status.Problem != "" {
		parts = append(parts, status.Problem)
	}
	return strings.Join(parts, "; ")
}

// KeepWhole moves all of w to where it is kept, as it is. It is for a repository that is gone.
func KeepWhole(w forage.Workspace) ([]workspace.Recovery, error) {
	sandbox, made := gitrepo.Sandbox(w), time.Now().UTC().Truncate(time.Millisecond)
	kept, err := gitrepo.KeepMetadata(w, sandbox, made, metadata(w)...)
	if _, gone := os.Lstat(w.Path); err != nil || w.Mode == forage.WorkspaceDirect || errors.Is(gone, fs.ErrNotExist) {
		return kept, err
	}
	all, err := gitrepo.KeepTree(w, sandbox, made) // the same folder
	if err != nil {
		return kept, err
	}
	return all, nil
}

// metadata are the private folders that are there.
func metadata(w forage.Workspace) []string {
	return slices.DeleteFunc([]string{gitFolder, jjFolder}, func(name string) bool { return !exists(filepath.Join(w.Repository.Dir, name)) })
}

// keeping is one Keep.
type keeping struct {
	*Shadow
	w       forage.Workspace
	in      *inside
	sandbox string
	made    time.Time
	saved   []string // revisions whose commits need not be kept
	kept    []workspace.Recovery
}

// Keep makes refs in the host's repository, below gitrepo.RecoveryRefs, that hold all of w's work that nothing else has:
// uncommitted files as one more commit, and each head. A private repository out of which no commits can be had is moved to a
// folder. Where git and jj share the repository, git keeps the rest.
func (s *Shadow) Keep(ctx context.Context, w forage.Workspace) (_ []workspace.Recovery, err error) {
	k := keeping{Shadow: s, w: w, sandbox: gitrepo.Sandbox(w), made: time.Now().UTC().Truncate(time.Millisecond)}
	if k.saved, err = s.saved(ctx, w); err != nil {
		return nil, err
	}
	at, err := s.Git.Branch(ctx, gitrepo.TipRef(w))
	if err != nil {
		return nil, err
	}
	alone, aside, kind := w.Repository.Kind == forage.RepositoryJJ, metadata(w), "head"
	if !alone {
		aside, kind = []string{jjFolder}, "jj"
		k.saved = append(k.saved, notRoot([]string{at})...)
	}
	if k.in, err = s.lookToKeep(ctx, w); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		k.kept, err = gitrepo.KeepMetadata(w, k.sandbox, k.made, aside...)
		if err != nil || !alone {
			return k.kept, err
		}
		k.in = &inside{work: cmp.Or(at, w.Base)}
		if k.in.staging, err = s.Repository.Git.Staging(s.scratch, filepath.Join(s.Dir, "staging")); err != nil {
			return k.kept, err
		}
	}
	defer func() { err = errors.Join(err, k.in.staging.Close()) }()
	work, err := k.files(ctx)
	if err != nil {
		return k.kept, fmt.Errorf("keeping uncommitted work: %w", err)
	}
	for n, tip := range append([]string{work, at}, k.in.others...) {
		name := fmt.Sprintf("%s-%d", kind, n)
		if n == 0 && alone {
			name = "work"
		}
		if err := k.keep(ctx, name, tip); err != nil {
			return k.kept, err
		}
	}
	return k.kept, nil
}

// lookToKeep is look for what has no more heads than can be kept one by one.
func (s *Shadow) lookToKeep(ctx context.Context, w forage.Workspace) (*inside, error) {
	ctx, cancel := context.WithTimeout(ctx, gitrepo.KeepPatience)
	defer cancel()
	in, err := s.look(ctx, w)
	if err != nil || len(in.others) <= gitrepo.MaxKept {
		return in, err
	}
	return nil, errors.Join(fmt.Errorf("there are %d heads", len(in.others)), in.staging.Close())
}

// files is the work's commit, with the files that it doesn't have on top.
func (k *keeping) files(ctx context.Context) (string, error) {
	if k.w.Mode == forage.WorkspaceDirect || k.w.ReadOnly {
		return k.in.work, nil
	}
	if !exists(k.w.Path) {
		return cmp.Or(k.in.dirty, k.in.work), nil // the last copy of the files
	}
	commit, more, err := gitrepo.KeepFiles(ctx, k.in.staging, k.w, k.sandbox, k.in.work, k.made)
	k.kept = append(k.kept, more...)
	return commit, err
}

// keep makes a recovery ref, unless the commit is safe.
func (k *keeping) keep(ctx context.Context, name, id string) error {
	if len(notRoot([]string{id})) == 0 {
		return nil
	}
	fresh, err := k.in.staging.Line(ctx, append([]string{"rev-list", "--max-count=1", id, "--not"}, k.saved...)...)
	if err != nil || fresh == "" {
		return err
	}
	if err := k.in.staging.Sized(ctx, id); err != nil {
		return err
	}
	if err := k.in.staging.Hand(ctx, []string{id}); err != nil {
		return err
	}
	ref := gitrepo.RecoveryPrefix(k.w, k.sandbox, k.made) + "/" + name
	if err := k.Git.MoveBranch(ctx, ref, "", id, "forage: kept for recovery"); err != nil {
		return fmt.Errorf("keeping %s: %w", name, err)
	}
	k.kept = append(k.kept, workspace.Recovery{Sandbox: k.sandbox, Store: k.w.Repository.Store, Ref: ref, Made: k.made})
	k.saved = append(k.saved, id)
	return nil
}
