package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"forage/internal/workspace"
)

// uncommitted are files that are not as the branch inside has them. Those of the user's own folder are the user's.
func (i *importing) uncommitted(ctx context.Context, status *workspace.Status) error {
	if !hasTree(i.w) {
		return nil
	}
	if _, err := os.Lstat(i.w.Path); errors.Is(err, fs.ErrNotExist) {
		return nil // the user removed it: what was in it is gone
	}
	base, err := i.base(ctx)
	if err != nil {
		return err
	}
	names, err := i.changedFiles(ctx, base)
	if err == nil {
		names, err = i.withoutTaken(ctx, names)
	}
	if err != nil {
		return fmt.Errorf("looking for uncommitted work: %w", err)
	}
	staged, err := i.onlyInIndex(ctx)
	if err != nil && status.Problem == "" {
		status.Problem = err.Error()
	}
	names = slices.Compact(slices.Sorted(slices.Values(append(names, staged...))))
	status.UncommittedCount = len(names)
	status.Uncommitted = names[:min(len(names), workspace.MaxListed)]
	return nil
}

// base is the commit that files inside are compared with: what is checked out there, or stands for the work; where the
// host has neither, the branch on the host.
func (i *importing) base(ctx context.Context) (string, error) {
	outside, err := i.host.Branch(ctx, branchRef(i.w.Branch))
	if err != nil {
		return "", err
	}
	state, err := loadImported(i.w)
	if err != nil {
		return "", err
	}
	at, err := placeInside(i.from, i.w, state)
	if err != nil {
		return outside, nil // see elsewhere
	}
	tip, _ := state.tip(at)
	for _, id := range []string{at.files, tip} {
		if id == "" {
			continue
		}
		if id == outside {
			return id, nil
		}
		if _, err := i.host.Git(ctx, Call{Args: []string{"cat-file", "-e", id + "^{commit}"}}); err == nil {
			return id, nil
		}
	}
	return outside, nil
}

// changedFiles lists files that are not as base has them, by names and times, and by content where times differ, on an index of
// ours that is kept for the next time. Git looks into no nested repository for that.
func (i *importing) changedFiles(ctx context.Context, base string) ([]string, error) {
	root, err := openFolder(i.w.Path)
	if err != nil {
		return nil, err
	}
	defer root.close()
	look := treeWriter{shadow: i.host, folder: Folder{Path: i.w.Path}, root: root, index: filepath.Join(i.host.Dir, "look.index")}
	kept := i.w.Repository.Dir + indexSuffix
	seed := CopyIndex(kept, look.index) == nil || CopyIndex(i.host.Repository.IndexOf(ctx, i.w.Path), look.index) == nil
	err = i.readTree(ctx, &look, base, seed)
	if err != nil && seed { // a kept index that is damaged
		err = i.readTree(ctx, &look, base, false)
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(look.unhide(ctx), i.host.passGitlinks(ctx, i.w.Path, look.index)); err != nil {
		return nil, err
	}
	// It exits with 1 when files differ; what it has not brought up to date is found out below.
	if _, err := i.host.compare(ctx, i.w.Path, look.index, "update-index", "-q", "--ignore-submodules", "--refresh"); isTooLong(err) {
		return nil, err
	}
	found, err := i.host.differing(ctx, i.w.Path, look.index, i.host.Rules(ctx, i.w))
	if err != nil {
		return nil, err
	}
	_ = replaceFile(look.index, kept) // that it can't be kept only costs time
	nested, err := look.nestedLinks(ctx)
	if err != nil {
		return nil, err
	}
	names := slices.Concat(found.closed, found.files, found.hidden)
	for _, name := range nested {
		names = append(names, name+"/")
	}
	slices.Sort(names)
	return slices.Compact(names), nil // what was deleted is listed twice
}

func (i *importing) readTree(ctx context.Context, look *treeWriter, base string, seed bool) error {
	args := []string{"read-tree", "-m", "-i", base}
	if !seed {
		if err := os.Remove(look.index); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		args = []string{"read-tree", base}
	}
	if base == "" {
		args = []string{"read-tree", "--empty"}
	}
	_, err := look.git(ctx, nil, args...)
	return err
}

// replaceFile puts a copy of a file in the place of another in one step.
func replaceFile(from, to string) error {
	temporary := to + "." + filepath.Base(filepath.Dir(from))
	if err := CopyIndex(from, temporary); err != nil {
		return err
	}
	return os.Rename(temporary, to)
}
