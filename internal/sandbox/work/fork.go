package work

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"forage"
	"forage/internal/hostile"
	"forage/internal/store"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/snapshot"
)

// State is that of a sandbox's work, which another takes over.
type State struct {
	Record   store.Record // of the sandbox
	before   Baselines    // what there was in its workspace when it was made
	snapshot snapshot.Snapshot
}

// Keep keeps the state that other will have. The caller holds the sandbox's lock.
func (k *Keeper) Keep(ctx context.Context, record store.Record, other string) (State, error) {
	from := State{Record: record}
	if record.Plan.Ephemeral {
		return from, forage.WithHint(forage.Errorf(forage.ErrRefused, "%s is a run, which goes when its command has ended", record.Name), "use `forage-ctl up`")
	}
	err := StillThere(record.Plan, "forked")
	if err == nil {
		from.before, err = k.Looked(record.Name)
	}
	if err != nil {
		return from, err
	}
	request, err := k.snapshotOf(ctx, record, "fork to "+other, true)
	if err != nil {
		return from, err
	}
	request.Automatic = true
	from.snapshot, err = k.snapshots().Create(ctx, request)
	return from, err
}

// Remember gives the other the first one's baseline of findings: what the first one's agent left is
// new to the user in the other, too. Only the metadata at the root is the other's own, since we
// have just made it.
func (k *Keeper) Remember(other string, from State) error {
	own, err := k.Looked(other)
	if err != nil {
		return err
	}
	for part, before := range from.before {
		for _, name := range []string{".git", ".jj"} {
			delete(before, name)
			if digest, ok := own[part][name]; ok {
				before[name] = digest
			}
		}
	}
	return store.WriteJSON(k.LookFile(other), from.before)
}

// halfCopy begins the name of a copy that is not whole yet, beside the folder that it becomes.
const halfCopy = ".forage-fork"

// CopyTo makes a copy of a part that is one of the user's folders, which is the user's too. It has
// its name once it is whole.
func (k *Keeper) CopyTo(ctx context.Context, from State, part, folder string) error {
	if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(err, forage.WithHint(
			forage.Errorf(forage.ErrRefused, "%s is there already, where the copy would be made", folder), "move it away, or choose another name"))
	}
	above := filepath.Dir(folder)
	for _, left := range halfCopies(above) {
		if err := hostile.RemoveAll(left); err != nil {
			return err
		}
	}
	half := filepath.Join(above, fmt.Sprintf("%s-%d-%s", halfCopy, os.Getpid(), rand.Text()))
	err := workspace.MakeFolder(half)
	if err != nil {
		return err
	}
	end := k.Progress("copying the workspace of " + from.Record.Name)
	err = k.snapshots().Fill(ctx, from.Record.Name, from.snapshot.ID, []snapshot.Folder{{Name: part, Path: half}})
	if end(); err == nil {
		err = os.Rename(half, folder) // which replaces no folder with files
	}
	if err != nil {
		return errors.Join(fmt.Errorf("copying to %s: %w", folder, err), hostile.RemoveAll(half))
	}
	return nil
}

// halfCopies are what forks that were killed left in a folder.
func halfCopies(folder string) (left []string) {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), halfCopy+"-") && workspace.Abandoned(e.Name()) {
			left = append(left, filepath.Join(folder, e.Name()))
		}
	}
	return left
}

// halfCopies removes what killed forks left beside the folders of sandboxes.
func (c *Collector) halfCopies() error {
	records, _, err := c.Host.Store.List()
	errs := []error{err}
	for _, record := range records {
		for _, w := range record.Plan.Workspaces() {
			if w.Mode != forage.WorkspaceDirect || w.Repository != nil {
				continue
			}
			for _, left := range halfCopies(filepath.Dir(w.Path)) {
				errs = append(errs, c.Do(record.Name, "removed the copy "+left+" that was not finished", func() error { return hostile.RemoveAll(left) }))
			}
		}
	}
	return errors.Join(errs...)
}

// TakeOver gives the other's workspaces, which were made already, the state of the first one's.
func (k *Keeper) TakeOver(ctx context.Context, from State, parts [][2]forage.Workspace) error {
	name := from.Record.Name
	var folders []snapshot.Folder
	alternates := make(map[string][]byte)
	for _, pair := range parts {
		more, err := k.foldersOf(ctx, pair[1], true)
		if err != nil {
			return err
		}
		folders = append(folders, more...)
		if err := borrowed(pair[1], alternates); err != nil {
			return err
		}
	}
	defer k.Progress("copying the workspace of " + name)()
	if err := k.snapshots().Fill(ctx, name, from.snapshot.ID, folders); err != nil {
		return fmt.Errorf("taking over the state of %s: %w", name, err)
	}
	for file, text := range alternates {
		if err := writeBorrowed(file, text); err != nil {
			return err
		}
	}
	for _, pair := range parts {
		if err := k.adopt(ctx, pair[0], pair[1]); err != nil {
			return err
		}
	}
	return nil
}

// adopt changes the private state that came with the snapshot from that of the part w to that of
// next.
func (k *Keeper) adopt(ctx context.Context, w, next forage.Workspace) error {
	if next.Repository == nil || next.Repository.Kind != forage.RepositoryGit || next.ReadOnly {
		return nil
	}
	if err := gitrepo.PinFork(ctx, w, next, k.Host.Workspaces.Places.Scratch); err != nil {
		return err
	}
	head := w.Repository.Head
	return gitrepo.Adopt(filepath.Join(next.Repository.Dir, "git"), head, next.Repository.Head, head == w.Branch)
}

// alternatesFile says where a git directory borrows objects. The paths in it are those of a
// sandbox's own mounts, so the first one's must not replace the other's.
const alternatesFile = "objects/info/alternates"

func borrowed(w forage.Workspace, into map[string][]byte) error {
	if w.Repository == nil {
		return nil
	}
	file := filepath.Join(w.Repository.Dir, "git", alternatesFile)
	text, err := os.ReadFile(file) // made by us a moment ago: no agent was inside
	if err == nil {
		into[file] = text
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// writeBorrowed writes an alternates file back into a git directory that was restored from the
// state, which is hostile.
func writeBorrowed(file string, text []byte) error {
	root, err := os.OpenRoot(filepath.Dir(filepath.Dir(filepath.Dir(file))))
	if err != nil {
		return err
	}
	defer root.Close()
	if err := errors.Join(root.MkdirAll(filepath.Dir(alternatesFile), 0o755), root.RemoveAll(alternatesFile)); err != nil {
		return err
	}
	return root.WriteFile(alternatesFile, text, 0o644)
}
