package image

import (
	"context"
	"encoding/json"
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

// Unpacked is an image in the cache.
type Unpacked struct {
	Name   string    `json:"name"`             // "image:REF" or "oci:PATH", as it was first asked for
	Digest string    `json:"digest,omitempty"` // of the manifest
	Size   int64     `json:"size"`             // unpacked, in bytes
	Used   time.Time `json:"used"`             // last given to a sandbox
	Path   string    `json:"path"`             // as Resolve gives it

	id string
}

// List has the unpacked images, those that were used last first.
func List(cacheDir string) ([]Unpacked, error) {
	c, err := existingCache(cacheDir)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	return c.list()
}

func (c cache) list() (list []Unpacked, err error) {
	entries, err := os.ReadDir(filepath.Join(c.dir, "trees-1"))
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			continue // on its way out
		}
		about := treeRecord{Name: "-"}
		if raw, err := os.ReadFile(filepath.Join(c.tree(entry.Name()), "image.json")); err == nil {
			_ = json.Unmarshal(raw, &about) // what can't be read is shown as unknown
		}
		list = append(list, Unpacked{about.Name, about.Digest, about.Size, info.ModTime(), c.rootfs(entry.Name()), entry.Name()})
	}
	slices.SortFunc(list, func(a, b Unpacked) int { return b.Used.Compare(a.Used) })
	return list, ignoreMissing(err)
}

// PruneOptions say what Prune must leave.
type PruneOptions struct {
	InUse  []string      // lower folders of sandboxes, as Resolve gave them
	Unused time.Duration // trees used since then stay, as far as there is room
	Most   int64         // bytes that all trees may take: beyond it those go that were not used longest; 0 is any
	DryRun bool          // only tell what would go
}

// Prune removes what interrupted runs left, and trees that nothing uses, and says which
// paths it removed. It is safe beside Resolve: a tree being made or given stays.
func Prune(cacheDir string, o PruneOptions) (removed []string, err error) {
	c, err := existingCache(cacheDir)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	trees, err := c.list()
	errs, taken := []error{err}, int64(0)
	for _, tree := range trees {
		taken += tree.Size
		tooMuch := o.Most > 0 && taken > o.Most
		if slices.Contains(o.InUse, tree.Path) || !tooMuch && time.Since(tree.Used) < o.Unused {
			continue
		}
		gone, err := c.pruneTree(tree.id, tree.Used, o.DryRun)
		if gone {
			removed, taken = append(removed, tree.Path), taken-tree.Size
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
