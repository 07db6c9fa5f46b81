package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"forage"
	"forage/internal/workspace"
)

// onlyInIndex are the files whose staged content is neither in the commit that is checked out inside nor in the folder. Only the
// index inside has it, so git is asked about that one, in a jail.
func (i *importing) onlyInIndex(ctx context.Context) (names []string, err error) {
	index := filepath.Join(workspace.Resolved(i.from.path), "index")
	info, err := os.Lstat(index)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(forage.Errorf(forage.ErrRefused, "%s is no file", index), err)
	}
	state, err := loadImported(i.w)
	if err != nil {
		return nil, err
	}
	at, err := placeInside(i.from, i.w, state)
	if err != nil || at.files == "" {
		return nil, nil // see elsewhere
	}
	staged, err := i.diffInside(ctx, index, "diff-index", "--cached", at.files)
	if err != nil || len(staged) == 0 {
		return nil, err
	}
	changed, err := i.diffInside(ctx, index, "diff") // not diff-files, which goes by times alone
	return InBoth(slices.Collect(fields(staged)), slices.Collect(fields(changed))), err
}

// diffInside lists names that differ, by the index inside.
func (i *importing) diffInside(ctx context.Context, index string, command string, args ...string) ([]byte, error) {
	dir, readOnly, err := i.host.overObjects(i.from.path)
	if err != nil {
		return nil, err
	}
	shared, _ := filepath.Glob(filepath.Join(filepath.Dir(index), "sharedindex.*")) // git-update-index(1), "SPLIT INDEX"
	for _, file := range shared {
		if err := os.Symlink(file, filepath.Join(dir, filepath.Base(file))); err != nil {
			return nil, err
		}
	}
	folder := workspace.Resolved(i.w.Path)
	jail := jailed(dir, append(append(readOnly, shared...), index, folder), append([]string{command, "--name-only", "-z", "--ignore-submodules=all"}, args...)...)
	jail.Env = append(jail.Env, "GIT_INDEX_FILE="+index, "GIT_WORK_TREE="+folder)
	jail.Dir = folder
	var out bytes.Buffer
	jail.Stdout, jail.Limits.Output = &out, callOutput
	jail.Limits.CPU, jail.Limits.Time = listCPU, 2*listCPU
	if err := jail.Run(ctx); err != nil {
		return nil, fmt.Errorf("asking about the index inside: %w", err)
	}
	return out.Bytes(), nil
}
