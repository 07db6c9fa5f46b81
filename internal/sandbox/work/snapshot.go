package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"forage"
	"forage/internal/rootfs"
	"forage/internal/sandbox/plan"
	"forage/internal/store"
	"forage/internal/term"
	"forage/internal/workspace"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/snapshot"
)

// SnapshotOptions say what Snapshot keeps.
type SnapshotOptions struct {
	Label   string
	Ignored bool // what the repository ignores too
}

// maxLabel bounds a label, in bytes.
const maxLabel = 200

// maxAutomatic is how much is copied for a snapshot that was not asked for, where the file system
// can't share blocks: a folder of hundreds of gigabytes is not copied because a sandbox starts
// afresh.
const maxAutomatic = 8 << 30

func (k *Keeper) snapshots() snapshot.Store {
	return snapshot.Store{Dir: k.Host.Workspaces.Places.Snapshots}
}

// Snapshot keeps the workspace of a sandbox as it is now, all parts of it, with its private
// repositories.
func (k *Keeper) Snapshot(ctx context.Context, name string, o SnapshotOptions) (made snapshot.Snapshot, err error) {
	if len(o.Label) > maxLabel {
		return made, forage.Errorf(forage.ErrUsage, "a label has at most %d bytes", maxLabel)
	}
	err = k.Locked(ctx, name, func(record store.Record) error {
		for _, w := range record.Plan.Workspaces() {
			if !plan.Exists(w.Path) {
				return gone(name, w, "kept", w.Path)
			}
		}
		request, err := k.snapshotOf(ctx, record, o.Label, o.Ignored)
		if err != nil {
			return err
		}
		defer k.Progress("taking a snapshot of " + name)()
		made, err = k.snapshots().Create(ctx, request)
		return err
	})
	return made, err
}

// snapshotBefore keeps the workspace of a sandbox before something is done with it, in a snapshot
// that goes by itself. That it can't be made is said, and keeps nothing from being done: what is to
// come does not mean to change the workspace. The caller holds the sandbox's lock.
func (k *Keeper) SnapshotBefore(ctx context.Context, record store.Record, what string) {
	request, err := k.snapshotOf(ctx, record, "before "+what, false)
	if err == nil {
		request.Automatic, request.MaxCopied = true, maxAutomatic
		end := k.Progress("taking a snapshot before " + what)
		_, err = k.snapshots().Create(ctx, request)
		end()
	}
	if err != nil && ctx.Err() == nil {
		k.Notify(fmt.Sprintf("no snapshot was made before %s: %v", what, err))
	}
}

// Snapshots are those of a sandbox, which may be gone, the oldest first. Where there is one of that
// name, those of earlier ones are only in it with all; earlier is how many there are.
func (k *Keeper) Snapshots(name string, all bool) (list []snapshot.Snapshot, earlier int, err error) {
	if err := forage.CheckName(name); err != nil {
		return nil, 0, err
	}
	list, err = k.snapshots().List(name)
	record, missing := k.Host.Store.Load(name)
	if missing != nil {
		if len(list) == 0 && err == nil {
			err = missing
		}
		return list, 0, err
	}
	own := slices.DeleteFunc(slices.Clone(list), func(one snapshot.Snapshot) bool { return !one.Of.Equal(record.CreatedAt) })
	if earlier = len(list) - len(own); all {
		return list, earlier, err
	}
	return own, earlier, err
}

// Restore makes the workspace of a sandbox, which may run, what it was. before is the snapshot of
// what it was until then.
func (k *Keeper) Restore(ctx context.Context, name, id string) (before snapshot.Snapshot, err error) {
	err = k.Locked(ctx, name, func(record store.Record) error {
		one, err := k.findSnapshot(name, id)
		if err != nil {
			return err
		}
		id := one.ID
		if !one.Of.Equal(record.CreatedAt) {
			return forage.WithHint(
				forage.Errorf(forage.ErrRefused, "the snapshot %s is of another sandbox that was called %s", id, name),
				"add --to FOLDER to have its files somewhere else")
		}
		request, err := k.snapshotOf(ctx, record, "before restore of "+id, one.Ignored)
		if err != nil {
			return err
		}
		request.Automatic = true
		end := k.Progress("restoring the workspace of " + name)
		before, err = k.snapshots().Restore(ctx, name, id, request)
		end()
		if err != nil {
			return err
		}
		k.BringCommits(ctx, record.Plan)
		return nil
	})
	return before, err
}

// Export writes the files of a snapshot to a folder, which must be empty or not there. The sandbox
// may be gone. Of several parts each gets a folder in it.
func (k *Keeper) Export(ctx context.Context, name, id, to string) error {
	if err := k.knows(name); err != nil {
		return err
	}
	one, err := k.findSnapshot(name, id)
	if err != nil {
		return err
	}
	if to, err = k.Host.Caller.Abs(to); err != nil {
		return err
	}
	var folders []snapshot.Folder
	for _, folder := range one.Folders {
		if filepath.Base(folder) == folder { // not a private repository
			folders = append(folders, snapshot.Folder{Name: folder, Path: filepath.Join(to, folder)})
		}
	}
	if len(folders) == 1 {
		folders[0].Path = to
	}
	defer k.Progress("writing " + to)()
	return k.snapshots().Export(ctx, name, one.ID, folders)
}

// findSnapshot finds a snapshot by its ID, or by its label if no other has the same.
func (k *Keeper) findSnapshot(name, called string) (snapshot.Snapshot, error) {
	one, err := k.snapshots().Find(name, called)
	if err == nil || called == "" {
		return one, err
	}
	all, _, listErr := k.Snapshots(name, false)
	if listErr != nil {
		return one, err
	}
	others := slices.DeleteFunc(all, func(other snapshot.Snapshot) bool { return other.Label != called })
	switch len(others) {
	case 0:
		return one, err
	case 1:
		return others[0], nil
	}
	return one, forage.WithHint(
		forage.Errorf(forage.ErrUsage, "%d snapshots of %s are called %q", len(others), name, called), "name one by its ID: `forage-ctl snapshot "+name+" list` shows them")
}

// DeleteSnapshot removes one, by its ID or label.
func (k *Keeper) DeleteSnapshot(name, called string) error {
	if err := k.knows(name); err != nil {
		return err
	}
	err := k.snapshots().Delete(name, called) // one that can't be read too
	if !errors.Is(err, forage.ErrUsage) {
		return err
	}
	one, err := k.findSnapshot(name, called)
	if err != nil {
		return err
	}
	return k.snapshots().Delete(name, one.ID)
}

// DeleteSnapshots removes all of a name, those of earlier sandboxes too.
func (k *Keeper) DeleteSnapshots(name string) error {
	list, _, err := k.Snapshots(name, true)
	if err != nil {
		return err
	}
	var errs []error
	for _, one := range list {
		errs = append(errs, k.snapshots().Delete(name, one.ID))
	}
	return errors.Join(errs...)
}

// tellSnapshots says what stays of a sandbox that was removed.
func (k *Keeper) TellSnapshots(record store.Record) {
	list, _ := k.snapshots().List(record.Name) // what can't be read takes no room worth a word
	list = slices.DeleteFunc(list, func(one snapshot.Snapshot) bool { return !one.Of.Equal(record.CreatedAt) })
	if len(list) == 0 {
		return
	}
	size := list[0].Bytes
	for _, one := range list[1:] {
		size += one.Added
	}
	k.Notify(fmt.Sprintf("kept for %d days: %s of %s, about %s; `forage-ctl snapshot %s delete --all` removes what is kept",
		int(snapshot.Kept/(24*time.Hour)), term.Count(len(list), "snapshot"), record.Name, term.Bytes(size), record.Name))
}

// knows is an error for a name that is that of no sandbox, and of none that left snapshots.
func (k *Keeper) knows(name string) error {
	_, _, err := k.Snapshots(name, true)
	if errors.Is(err, forage.ErrUsage) || errors.Is(err, forage.ErrNotFound) {
		return err
	}
	return nil // that one of its snapshots can't be read does not prevent another
}

// snapshotOf is what a snapshot of a workspace consists of.
func (k *Keeper) snapshotOf(ctx context.Context, of store.Record, label string, ignored bool) (snapshot.Request, error) {
	request := snapshot.Request{Sandbox: of.Name, Of: of.CreatedAt, Label: label, Ignored: ignored}
	var errs []error
	for _, w := range of.Plan.Workspaces() {
		folders, err := k.foldersOf(ctx, w, ignored)
		request.Folders = append(request.Folders, folders...)
		errs = append(errs, err)
	}
	return request, errors.Join(errs...)
}

// foldersOf are the folders that a part of a workspace consists of: its files, and what is private
// of its repositories. What is shown inside in the place of something else is no part of its files:
// there is the user's own metadata.
func (k *Keeper) foldersOf(ctx context.Context, w forage.Workspace, ignored bool) ([]snapshot.Folder, error) {
	main := snapshot.Folder{Name: w.Name, Path: w.Path}
	main.Name = cmp.Or(main.Name, workspace.Main)
	if w.Repository == nil {
		return []snapshot.Folder{main}, nil
	}
	leave := make(map[string]bool)
	if !ignored {
		var err error
		if leave, err = k.ignoredBy(ctx, w); err != nil {
			return nil, fmt.Errorf("finding out what %s ignores: %w", w.Path, err)
		}
	}
	folders := []snapshot.Folder{main}
	for _, m := range w.Repository.Mounts {
		if !rootfs.Within(m.Source, w.Repository.Dir) {
			continue
		}
		if below, ok := strings.CutPrefix(m.Target, w.Target+"/"); ok {
			leave[below], leave[below+"/"] = true, true
		}
		if info, err := os.Lstat(m.Source); m.Writable && err == nil && info.IsDir() {
			rel, err := filepath.Rel(w.Repository.Dir, m.Source)
			if err != nil {
				return nil, err
			}
			folders = append(folders, snapshot.Folder{Name: main.Name + "/" + rel, Path: m.Source})
		}
	}
	folders[0].Ignored = func(path string) bool { return leave[path] }
	return folders, nil
}

// maxIgnored bounds the list of what is ignored, in bytes.
const maxIgnored = 256 << 20

// ignoredBy are the paths that a repository ignores, folders with a slash at the end, and nothing
// below them. Git looks at names alone, in a shadow; what it tracks is what the branch on the host
// has.
func (k *Keeper) ignoredBy(ctx context.Context, w forage.Workspace) (_ map[string]bool, err error) {
	if _, err := os.Lstat(w.Path); errors.Is(err, os.ErrNotExist) {
		return map[string]bool{}, nil
	}
	repository, err := gitrepo.OpenToRead(ctx, w.Repository.Store)
	if errors.Is(err, gitrepo.ErrNoRepository) {
		_, err = gitrepo.Moved(w)
	}
	if err != nil {
		return nil, err
	}
	shadow, err := repository.Shadow(k.Host.Workspaces.Places.Scratch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shadow.Close()) }()
	index := filepath.Join(shadow.Dir, "ignored.index")
	if tracked := tracking(ctx, shadow, w); tracked != "" {
		if _, err := shadow.Git(ctx, gitrepo.Call{Args: []string{"read-tree", tracked}, Index: index}); err != nil {
			return nil, err
		}
	}
	list, err := shadow.Git(ctx, gitrepo.Call{
		Args:     []string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"},
		WorkTree: w.Path, Index: index, Output: maxIgnored, Brief: true,
	})
	if err != nil {
		return nil, gitrepo.TooLong(err)
	}
	return onlyIgnored(strings.Split(strings.TrimRight(string(list), "\x00"), "\x00")), nil
}

// tracking is the commit whose files are tracked; "" is none.
func tracking(ctx context.Context, shadow *gitrepo.Shadow, w forage.Workspace) string {
	for _, name := range []string{gitrepo.TipRef(w), w.Base} {
		if name == "" {
			continue
		}
		if id, err := shadow.Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}"); err == nil {
			return id
		}
	}
	return ""
}

// onlyIgnored drops the folders that git lists because everything in them happens to be ignored: it
// lists what is in them too. They are no part of what is left out, or a file that comes to be there
// would be.
func onlyIgnored(list []string) map[string]bool {
	slices.Sort(list)
	found := make(map[string]bool, len(list))
	for i, path := range list {
		hasMore := i+1 < len(list) && strings.HasSuffix(path, "/") && strings.HasPrefix(list[i+1], path)
		if path != "" && !hasMore {
			found[path] = true
		}
	}
	return found
}
