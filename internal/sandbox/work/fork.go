package work

import (
	"context"
	"errors"
	"fmt"
	"forage"
	"forage/internal/store"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/snapshot"
	"io/fs"
	"os"
	"path/filepath"
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
	request, err := k.snapshotOf(ctx, record.Plan, true)
	if err != nil {
		return from, err
	}
	request.Of, request.Label, request.Automatic = record.CreatedAt, "fork to "+other, true
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

// TakeOver gives the other's workspaces, which were made already, the state of the first one's.
func (k *Keeper) TakeOver(ctx context.Context, record store.Record, from State, parts [][2]forage.Workspace) error {
	name := from.Record.Name
	request := snapshot.Request{Sandbox: record.Name, Of: record.CreatedAt, Label: "fork of " + name, Automatic: true}
	alternates := make(map[string][]byte)
	for _, pair := range parts {
		folders, err := k.foldersOf(ctx, pair[1], true)
		if err != nil {
			return err
		}
		request.Folders = append(request.Folders, folders...)
		if err := borrowed(pair[1], alternates); err != nil {
			return err
		}
	}
	defer k.Progress("copying the workspace of " + name)()
	before, err := k.snapshots().Restore(ctx, name, from.snapshot.ID, request)
	if err != nil {
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
	return k.snapshots().Delete(record.Name, before.ID) // no agent was at work there
}

// adopt changes the private state that came with the snapshot from that of the part w to that of
// next.
func (k *Keeper) adopt(ctx context.Context, w, next forage.Workspace) error {
	if next.Repository == nil || next.Repository.Kind != forage.RepositoryGit || next.ReadOnly {
		return nil
	}
	if err := gitrepo.PinFork(ctx, w, next, k.Workspaces.Places.Scratch); err != nil {
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
