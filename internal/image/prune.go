package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/hostile"
)

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// PruneOptions say what Prune must leave.
type PruneOptions struct {
	InUse  []string      // lower folders of sandboxes, as Resolve gave them
	Unused time.Duration // trees used since then stay, in use or not
	DryRun bool          // only tell what would go
}

// Prune removes what interrupted runs left, and trees that nothing uses, and says which
// paths it removed. It is safe beside Resolve: a tree being made or given stays.
func Prune(cacheDir string, o PruneOptions) (removed []string, err error) {
	c, err := existingCache(cacheDir)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	trees, err := os.ReadDir(filepath.Join(c.dir, "trees-1"))
	errs := []error{ignoreMissing(err)}
	for _, tree := range trees {
		id := tree.Name()
		info, err := tree.Info()
		if err != nil || slices.Contains(o.InUse, c.rootfs(id)) || time.Since(info.ModTime()) < o.Unused {
			continue
		}
		gone, err := c.pruneTree(id, info.ModTime(), o.DryRun)
		if gone {
			removed = append(removed, c.rootfs(id))
		}
		errs = append(errs, err)
	}
	left, err := c.pruneLeftovers(o.DryRun)
	return append(removed, left...), errors.Join(append(errs, err)...)
}

// pruneTree removes a tree unless a process makes it or has used it since the look. It is renamed
// first, so that half a tree never has its name.
func (c cache) pruneTree(id string, used time.Time, dryRun bool) (bool, error) {
	unlock, ok, err := c.tryLock(id, unix.LOCK_EX)
	if !ok {
		return false, err
	}
	defer unlock()
	if info, err := os.Lstat(c.tree(id)); err != nil || !info.ModTime().Equal(used) {
		return false, nil
	}
	if dryRun {
		return true, nil
	}
	tmp, done, err := c.temporary(context.Background())
	if err != nil {
		return false, err
	}
	err = os.Rename(c.tree(id), filepath.Join(tmp, "tree"))
	return err == nil, errors.Join(err, done())
}

// pruneLeftovers removes what no process works in.
func (c cache) pruneLeftovers(dryRun bool) (removed []string, err error) {
	unlock, ok, err := c.tryLock("tmp", unix.LOCK_EX)
	if !ok {
		return nil, ignoreMissing(err)
	}
	defer unlock()
	entries, err := os.ReadDir(filepath.Join(c.dir, "tmp"))
	errs := []error{ignoreMissing(err)}
	for _, e := range entries {
		path := filepath.Join(c.dir, "tmp", e.Name())
		removed = append(removed, path)
		if !dryRun {
			errs = append(errs, hostile.RemoveAll(path))
		}
	}
	return removed, errors.Join(errs...)
}
