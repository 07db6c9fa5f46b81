package child

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/hostile"
	"forage/internal/mount"
	"forage/internal/rootfs"
)

// Files in a writable bind that the host's tools execute (hooks, .envrc) are mounted read-only
// over themselves: from inside, a mount point can't be changed, renamed or replaced. Each folder on
// the way there is mounted over itself too, writable, so that it can't be renamed either. A file
// that is not there when the sandbox starts is not held: nothing is made on the host.
//
// The host's own programs see none of these mounts. When one replaces a held file, as an editor
// does on saving, the kernel takes the mount away, and the new file is not held. What the agent
// does to it is found and shown: see package autorun.

// protected are the paths that the spec protects, and the metadata of a repository at the root of
// whatever is writable: a second wall for a workspace, where metadata of the sandbox's own is
// mounted over it, and the only one for a user's own mounts.
func protected(spec forage.Spec) []string {
	list := slices.Clone(spec.Protect)
	for _, m := range spec.Mounts {
		if !m.Writable || m.System || m.Volume {
			continue
		}
		for _, name := range metadata {
			list = append(list, path.Join(m.Target, name))
		}
	}
	slices.Sort(list) // what holds another comes first
	return slices.Compact(list)
}

// metadata are names of mounts that have to stay in their place: they cover what the host's git and
// jj execute.
var metadata = []string{".git", ".jj"}

// holding returns what has to be held in bind: the folders that must not be renamed, and the paths
// that are read-only, both from the outside in.
func (b *boot) holding(bind string) (folders, readOnly []string) {
	for _, target := range b.Protect {
		if b.holder(target) != bind {
			continue
		}
		folders = append(folders, between(bind, target)...)
		if !b.mounted(target) {
			readOnly = append(readOnly, target)
		}
	}
	for _, t := range b.Mounts {
		if slices.Contains(metadata, path.Base(t.Target)) && b.holder(t.Target) == bind {
			folders = append(folders, between(bind, t.Target)...)
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders), readOnly
}

// holder is the target of the innermost mount that target is below.
func (b *boot) holder(target string) string {
	best := ""
	for _, t := range b.Mounts {
		if t.Target != target && rootfs.Within(target, t.Target) && len(t.Target) > len(best) {
			best = t.Target
		}
	}
	return best
}

// mounted says whether the host's own file is mounted at target.
func (b *boot) mounted(target string) bool {
	return slices.ContainsFunc(b.Mounts, func(t tree) bool { return t.Target == target })
}

// between are the folders below outer on the way to inner.
func between(outer, inner string) []string {
	var folders []string
	for dir := path.Dir(inner); dir != outer && strings.HasPrefix(dir, outer+"/"); dir = path.Dir(dir) {
		folders = append(folders, dir)
	}
	slices.Reverse(folders)
	return folders
}

// hold holds what is in a bind that has just been mounted.
func (b *builder) hold(s *bind) error {
	if !s.Writable {
		return nil
	}
	folders, readOnly := b.boot.holding(s.Target)
	for _, dir := range folders {
		if err := b.overItself(dir, 0); err != nil {
			return fmt.Errorf("holding %s: %w", dir, err)
		}
	}
	for _, target := range readOnly {
		if err := b.overItself(target, mount.ReadOnly); err != nil {
			return fmt.Errorf("protecting %s: %w", target, err)
		}
	}
	return nil
}

// overItself mounts what is at target over itself; a symbolic link is mounted itself, and not what
// it leads to. If there is nothing, or if a link is on the way, it does nothing.
func (b *builder) overItself(target string, attrs uint64) error {
	at, err := openPinned(b.root, relative(target))
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil
	case err != nil:
		return err
	}
	defer unix.Close(at)
	fd, err := mount.CloneTree(at, attrs)
	if err != nil {
		return err
	}
	return mount.Attach(fd, at, "")
}

// openPinned opens what is at rel below dir, a symbolic link itself; a link on the way is ELOOP.
func openPinned(dir int, rel string) (int, error) {
	if parent := parentOf(rel); parent != "" {
		fd, err := hostile.OpenBelow(dir, parent, unix.O_PATH)
		if err != nil {
			return -1, err
		}
		defer unix.Close(fd)
		dir, rel = fd, path.Base(rel)
	}
	return unix.Openat(dir, rel, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}
