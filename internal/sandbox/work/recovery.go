package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"forage"
	"forage/internal/sandbox/plan"
	"forage/internal/store"
	"forage/internal/term"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/jjrepo"
)

// setAside moves what was made for a part to a folder of its own, and returns that; "" if there is
// nothing of it.
func (k *Keeper) setAside(name string, w forage.Workspace) (string, error) {
	made := map[string]string{}
	if plan.Below(w.Path, workspace.Resolved(k.Host.Workspaces.Places.Trees)) {
		made["files"] = w.Path
	}
	if w.Repository != nil {
		made["repository"], made["store"] = w.Repository.Dir, w.Repository.Dir+".store"
	}
	folder := k.Host.Workspaces.Places.Kept(name, time.Now(), w.Name)
	moved := false
	for as, path := range made {
		if !plan.Exists(path) {
			continue
		}
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return "", err
		}
		if err := os.Rename(path, filepath.Join(folder, as)); err != nil {
			return "", err
		}
		moved = true
	}
	if !moved {
		return "", nil
	}
	return folder, nil
}

// remember notes, as JSON, what was kept at one removal, so that gc knows when to let it go. A
// branch is the user's from now on.
func (k *Keeper) remember(kept []workspace.Recovery) error {
	kept = slices.DeleteFunc(slices.Clone(kept), func(r workspace.Recovery) bool { return isBranch(r.Ref) && !workspace.IsKept(r.Store) })
	if len(kept) == 0 {
		return nil
	}
	return store.WriteJSON(k.Host.Workspaces.Places.Kept(kept[0].Sandbox, time.Now(), "json"), kept)
}

// stillListed are the worktrees of removed sandboxes of that name that their repositories still
// list: these were gone at the removal, and are back.
func (k *Keeper) StillListed(name string) (listed []forage.Workspace) {
	files, _ := filepath.Glob(k.Host.Workspaces.Places.Recovery() + "/" + name + ".*.json")
	for _, file := range files {
		var kept []workspace.Recovery
		_ = store.ReadJSON(file, &kept) // gc says that it can't be read
		for _, r := range kept {
			if r.Left != nil && plan.Below(r.Left.Path, workspace.Resolved(k.Host.Workspaces.Places.Trees)) && gitrepo.StillListed(*r.Left) {
				listed = append(listed, *r.Left)
			}
		}
	}
	return listed
}

// unlist removes those worktrees from their repositories. A branch with commits stays. The caller
// holds the lock of the name.
func (k *Keeper) Unlist(ctx context.Context, name string) error {
	if _, err := k.Host.Store.Load(name); !errors.Is(err, forage.ErrNotFound) {
		return nil // it was made meanwhile
	}
	var failed []error
	for _, w := range k.StillListed(name) {
		provider, err := k.Host.Workspaces.New(w.Mode)
		if err == nil {
			_, err = provider.Remove(ctx, w, workspace.RemoveUnused)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// recoveryNotes say where the removed work of w is, and then, once for all that is in one
// repository, how to get it back.
func recoveryNotes(all []workspace.Recovery, w forage.Workspace) []string {
	var notes, ways []string
	for _, r := range all {
		note, way := recoveryNote(r, w)
		notes = append(notes, note)
		if way != "" && !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
	}
	return append(notes, ways...)
}

// recoveryNote is for one of them. A way is apart from the note where it is the same for others.
func recoveryNote(r workspace.Recovery, w forage.Workspace) (note, way string) {
	days := int(workspace.RecoveryKept / (24 * time.Hour))
	branch, store := strings.TrimPrefix(r.Ref, branchRefs), term.ShellWord(r.Store)
	jj := w.Repository != nil && w.Repository.Kind == forage.RepositoryJJ
	switch {
	case r.Folder != "":
		return fmt.Sprintf("the files of %s are kept for %d days in %s", r.Sandbox, days, r.Folder), ""
	case isBranch(r.Ref) && workspace.IsKept(r.Store):
		return fmt.Sprintf("the commits of %s are kept for %d days: git fetch %s %s brings them", r.Sandbox, days, store, branch), ""
	case isBranch(r.Ref) && w.Mode == forage.WorkspaceDirect:
		return fmt.Sprintf("the commits of %s are on the branch %s; the files are in your folder already: %s",
			r.Sandbox, branch, ontoThem(r, w, branch)), ""
	case isBranch(r.Ref):
		return fmt.Sprintf("the commits of %s are on the branch %s of %s: `git merge %s` brings them into yours", r.Sandbox, branch, r.Store, branch), ""
	case workspace.IsKept(r.Store):
		return fmt.Sprintf("the work of %s is kept for %d days as %s", r.Sandbox, days, r.Ref),
			fmt.Sprintf("to bring it to a branch, in a repository of yours: git fetch %s REF:NAME", store)
	}
	way = fmt.Sprintf("to bring it back: git --git-dir=%s branch NAME REF", store)
	if jj {
		way += ", and then jj git import"
	}
	return fmt.Sprintf("the work of %s is kept for %d days as %s", r.Sandbox, days, r.Ref), way
}

// ontoThem is what brings a folder that has the files to the commits of them: as git knows them, or
// jj where there is one.
func ontoThem(r workspace.Recovery, w forage.Workspace, branch string) string {
	folder := w.Path
	for _, nested := range w.Repository.Nested {
		if nested.Repository.Store == r.Store {
			folder = filepath.Join(w.Path, nested.Path)
		}
	}
	if folder == w.Path && jjrepo.Has(w.Repository) {
		return fmt.Sprintf("`jj -R %s rebase -r @ -d %s` bases your working copy on them", term.ShellWord(folder), branch)
	}
	return resetTo(folder, branch)
}

// resetTo is what brings the branch that is checked out in folder, which has the files, to the
// commits of them.
func resetTo(folder, branch string) string {
	return fmt.Sprintf("`git -C %s reset %s` moves the branch there to the commits, if it has got none of its own meanwhile", term.ShellWord(folder), branch)
}

const branchRefs = "refs/heads/"

func isBranch(ref string) bool { return strings.HasPrefix(ref, branchRefs) }

// removing is the end of the name of a note that is there while a sandbox's work is kept and its
// workspaces are removed. A removal that is killed has kept what no other note tells of: this one
// says where that may be, and gc lets it go in its time.
const removing = ".removing.json"

// keeps says whether a removal keeps work that would be lost.
func keeps(how workspace.Removal) bool {
	return how == workspace.RemoveForced || how == workspace.RemoveButBranch
}

// beginRemoval writes that note. end takes it back, unless an earlier removal was killed.
func (k *Keeper) beginRemoval(name string, parts []forage.Workspace, how workspace.Removal) (end func() error, err error) {
	if !keeps(how) || len(parts) == 0 {
		return func() error { return nil }, nil
	}
	file := filepath.Join(k.Host.Workspaces.Places.Recovery(), name+removing)
	killed := plan.Exists(file)
	var places []workspace.Recovery
	for _, w := range parts {
		place := workspace.Recovery{Sandbox: name, Made: time.Now().UTC()}
		if w.Repository != nil {
			place.Store, place.Ref = w.Repository.Store, gitrepo.RecoveryRefs+name+"/"
		}
		places = append(places, place)
	}
	// The record of a run isn't synced to disk either.
	if err := store.WriteWhole(file, places, how != workspace.RemoveButBranch); err != nil {
		return nil, err
	}
	return func() error {
		if !killed {
			return os.Remove(file)
		}
		k.Notify(fmt.Sprintf("an earlier removal of %s was interrupted: what that kept, if anything, is below %s%s/ in the repository, or in %s",
			name, gitrepo.RecoveryRefs, name, k.Host.Workspaces.Places.Recovery()))
		return nil
	}, nil
}
