package image

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/deadline"
	"forage/internal/hostile"
)

// The cache, below its folder (0700, the caller's):
//
//	trees-1/HEX/rootfs      an unpacked image, HEX being the chain ID of its layers; the mtime of
//	                        the folder HEX is the last use
//	trees-1/HEX/image.json  what it was unpacked from (treeRecord)
//	refs-2/HEX.json         what a reference meant when it was pulled (refRecord)
//	locks/HEX               held while a tree is made or removed, shared while it is given out
//	locks/tmp               shared while a process works in tmp
//	tmp/*                   trees in the making
//
// A tree gets its name by a rename when it is complete, verified and on disk; nothing
// in tmp is ever believed.
type cache struct{ dir string }

func openCache(dir string) (cache, error) {
	for _, sub := range []string{"trees-1", "refs-2", "locks", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return cache{}, fmt.Errorf("making the image cache: %w", err)
		}
	}
	return existingCache(dir)
}

// existingCache names the cache as the runtime wants what it mounts: absolute, without links.
func existingCache(dir string) (cache, error) {
	real, err := filepath.Abs(dir)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		return cache{}, fmt.Errorf("opening the image cache: %w", err)
	}
	return cache{real}, nil
}

func (c cache) tree(id string) string   { return filepath.Join(c.dir, "trees-1", id) }
func (c cache) rootfs(id string) string { return filepath.Join(c.tree(id), "rootfs") }

// use gives a complete tree, and notes that it was used. While another process
// makes or removes it, it is not there.
func (c cache) use(id string) (string, bool) {
	unlock, ok, err := c.tryLock(id, unix.LOCK_SH)
	if !ok || err != nil {
		return "", false
	}
	defer unlock()
	return c.useLocked(id)
}

func (c cache) useLocked(id string) (string, bool) {
	now := time.Now()
	if err := os.Chtimes(c.tree(id), now, now); err != nil {
		return "", false
	}
	return c.rootfs(id), true
}

// unpackOnce gives the tree of an image, making it unless it is there.
func unpackOnce(ctx context.Context, cacheDir string, p *picture, name string, limits Limits) (string, error) {
	c, err := openCache(cacheDir)
	if err != nil {
		return "", err
	}
	id := p.chainID().Hex
	if tree, ok := c.use(id); ok {
		return tree, nil
	}
	unlock, err := c.lock(ctx, id, unix.LOCK_EX)
	if err != nil {
		return "", fmt.Errorf("waiting for another process to unpack %s: %w", name, err)
	}
	defer unlock()
	if tree, ok := c.useLocked(id); ok {
		return tree, nil
	}
	if err := c.unpack(ctx, p, id, name, limits); err != nil {
		return "", fmt.Errorf("unpacking %s: %w", name, err)
	}
	return c.rootfs(id), nil
}

// unpack makes a tree aside and then gives it its name.
func (c cache) unpack(ctx context.Context, p *picture, id, name string, limits Limits) (err error) {
	tmp, done, err := c.temporary(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	fresh := filepath.Join(tmp, "tree")
	rootfs := filepath.Join(fresh, "rootfs")
	if err := os.MkdirAll(rootfs, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(rootfs, 0o755); err != nil { // whatever the umask
		return err
	}
	t, err := openTree(rootfs, limits)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := p.applyTo(ctx, t, tmp); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx) // not the image's fault
		}
		return forage.Errorf(forage.ErrStart, "%w", err)
	}
	about, err := json.Marshal(treeRecord{Name: name, Digest: p.digest, Size: t.bytes, Pulled: time.Now().UTC()})
	if err == nil {
		err = os.WriteFile(filepath.Join(fresh, "image.json"), about, 0o600)
	}
	if err != nil {
		return err
	}
	// A power cut must not leave the name on files that were not written.
	if err := unix.Syncfs(int(t.root.Fd())); err != nil {
		return fmt.Errorf("writing to disk: %w", err)
	}
	return os.Rename(fresh, c.tree(id))
}

// temporary makes a folder to work in, which is removed afterwards. Prune removes what is left of
// others while no process works in any.
func (c cache) temporary(ctx context.Context) (path string, done func() error, err error) {
	unlock, err := c.lock(ctx, "tmp", unix.LOCK_SH)
	if err != nil {
		return "", nil, err
	}
	if path, err = os.MkdirTemp(filepath.Join(c.dir, "tmp"), "unpack-"); err != nil {
		unlock()
		return "", nil, err
	}
	return path, func() error { defer unlock(); return hostile.RemoveAll(path) }, nil
}

// lock waits for a lock: of a tree to make or remove it, or of the folder tmp.
func (c cache) lock(ctx context.Context, name string, how int) (unlock func(), err error) {
	f, err := c.openLock(name)
	if err != nil {
		return nil, err
	}
	if err := deadline.Flock(ctx, f, how); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { f.Close() }, nil
}

// openLock opens a lock's file. It stays: taking it away would let two processes lock different
// files of the same name.
func (c cache) openLock(name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(c.dir, "locks", name), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
}

// tryLock takes a lock, unix.LOCK_SH or LOCK_EX, if it is free.
func (c cache) tryLock(id string, how int) (unlock func(), ok bool, err error) {
	f, err := c.openLock(id)
	if err != nil {
		return nil, false, err
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if err == nil {
		return func() { f.Close() }, true, nil
	}
	f.Close()
	if err == unix.EWOULDBLOCK || err == unix.EINTR {
		err = nil
	}
	return nil, false, err
}

// treeRecord is what a tree was unpacked from.
type treeRecord struct {
	Name   string    `json:"name"`             // "image:REF" or "oci:PATH", as it was first asked for
	Digest string    `json:"digest,omitempty"` // of the manifest
	Size   int64     `json:"size"`             // of what was unpacked, in bytes
	Pulled time.Time `json:"pulled"`
}

// refRecord is what a reference meant when it was last pulled.
type refRecord struct {
	Ref    string    `json:"ref"`
	Tree   string    `json:"tree"`           // chain ID, hex
	Path   string    `json:"path,omitempty"` // PATH, as the image says
	Pulled time.Time `json:"pulled"`
}

// refPath is where the meaning of a reference is kept. The key has the platform in
// it, for a state folder that several machines share.
func (c cache) refPath(ref string) string {
	key := sha256.Sum256([]byte(ref + "\x00" + platform().String()))
	return filepath.Join(c.dir, "refs-2", fmt.Sprintf("%x.json", key))
}

// known gives the tree of a reference that was pulled before, if it is still there.
func (c cache) known(ref string) (tree, searchPath string, ok bool) {
	var r refRecord
	raw, err := os.ReadFile(c.refPath(ref))
	if err != nil || json.Unmarshal(raw, &r) != nil || r.Ref != ref || strings.Trim(r.Tree, "0123456789abcdef") != "" {
		return "", "", false
	}
	tree, ok = c.use(r.Tree)
	return tree, r.Path, ok
}
