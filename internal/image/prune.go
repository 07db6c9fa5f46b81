package image

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/hostile"
)

// Tree is an unpacked image in the cache.
type Tree struct {
	Path     string    `json:"path"`   // as Resolve gives it
	Digest   string    `json:"digest"` // chain ID of its layers: "sha256:..."
	Name     string    `json:"name"`   // what it was first unpacked for: "image:REF", "oci:PATH"
	Bytes    int64     `json:"bytes"`
	Entries  int64     `json:"entries"`
	Unpacked time.Time `json:"unpacked"`
	Used     time.Time `json:"used"` // when Resolve last gave it
}

// List tells what the cache holds, the longest unused first. A cache that is not there holds
// nothing.
func List(cacheDir string) ([]Tree, error) {
	c, err := existingCache(cacheDir)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	entries, err := os.ReadDir(filepath.Join(c.dir, "trees-1"))
	if err != nil {
		return nil, ignoreMissing(err)
	}
	var trees []Tree
	for _, e := range entries {
		if t, ok := c.describe(e.Name()); ok {
			trees = append(trees, t)
		}
	}
	slices.SortFunc(trees, func(a, b Tree) int { return a.Used.Compare(b.Used) })
	return trees, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (c cache) describe(id string) (Tree, bool) {
	info, err := os.Lstat(c.record(id))
	if err != nil {
		return Tree{}, false
	}
	raw, err := os.ReadFile(c.record(id))
	var r treeRecord
	if err != nil || json.Unmarshal(raw, &r) != nil {
		return Tree{}, false
	}
	return Tree{
		Path: c.rootfs(id), Digest: "sha256:" + id, Name: r.Name, Bytes: r.Bytes, Entries: r.Entries,
		Unpacked: r.Unpacked, Used: info.ModTime(),
	}, true
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
	trees, err := List(cacheDir)
	if err != nil {
		return nil, err
	}
	c, err := existingCache(cacheDir)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	var errs []error
	for _, t := range trees {
		if slices.Contains(o.InUse, t.Path) || time.Since(t.Used) < o.Unused {
			continue
		}
		gone, err := c.pruneTree(strings.TrimPrefix(t.Digest, "sha256:"), t.Used, o.DryRun)
		if gone {
			removed = append(removed, t.Path)
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
	if info, err := os.Lstat(c.record(id)); err != nil || !info.ModTime().Equal(used) {
		return false, nil
	}
	if dryRun {
		return true, nil
	}
	tmp, done, err := c.temporary()
	if err != nil {
		return false, err
	}
	err = os.Rename(c.tree(id), filepath.Join(tmp, "tree"))
	return err == nil, errors.Join(err, done())
}

// pruneLeftovers removes what no process works in.
func (c cache) pruneLeftovers(dryRun bool) (removed []string, err error) {
	entries, err := os.ReadDir(filepath.Join(c.dir, "tmp"))
	if err != nil {
		return nil, ignoreMissing(err)
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(c.dir, "tmp", e.Name())
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
		if err != nil {
			errs = append(errs, ignoreMissing(err))
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			if !dryRun {
				errs = append(errs, hostile.RemoveAll(path))
			}
			removed = append(removed, path)
		}
		f.Close()
	}
	return removed, errors.Join(errs...)
}
