package image

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/hostile"
)

// tree is a folder that layers are applied to. Every path of an image is
// resolved by the kernel as if the folder were the root (openat2,
// RESOLVE_IN_ROOT): links are followed as they will be inside, and lead nowhere
// else. The last part of a path is never followed.
type tree struct {
	root    *os.File
	limits  Limits
	bytes   int64 // of files written
	entries int64
	buf     []byte
	// mine are the inodes that the current layer made or named, so that its
	// whiteouts, which are about the layers below, spare them. nil in the lowest layer.
	mine map[uint64]struct{}
}

// errEscapes is an entry whose name can't be meant well.
var errEscapes = errors.New("name leads outside the image")

func openTree(path string, limits Limits) (*tree, error) {
	root, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	return &tree{root: root, limits: limits, buf: make([]byte, 128<<10)}, nil
}

func (t *tree) Close() error { return t.root.Close() }

// nextLayer says that what follows belongs to a layer above.
func (t *tree) nextLayer(lowest bool) {
	t.mine = nil
	if !lowest {
		t.mine = map[uint64]struct{}{}
	}
}

// splitName takes a name of an archive apart into its folder ("" is the root) and
// last part (empty for the root itself). Leading slashes mean nothing in a layer;
// ".." has no honest use.
func splitName(name string) (dir, base string, err error) {
	var parts []string
	for _, part := range strings.Split(name, "/") {
		switch part {
		case "", ".":
		case "..":
			return "", "", errEscapes
		default:
			parts = append(parts, part)
		}
	}
	if strings.IndexByte(name, 0) >= 0 {
		return "", "", errEscapes
	}
	if len(parts) == 0 {
		return "", "", nil
	}
	last := len(parts) - 1
	return strings.Join(parts[:last], "/"), parts[last], nil
}

// apply makes the tree hold one entry of a layer. Devices, FIFOs and sockets are
// left out; what they would replace goes.
func (t *tree) apply(h *tar.Header, content io.Reader) error {
	if err := t.count(1, 0); err != nil {
		return err
	}
	dir, base, err := splitName(h.Name)
	if err != nil || base == "" {
		return err // the root folder keeps our mode: the sandbox must be able to enter it
	}
	if strings.HasPrefix(base, whiteoutPrefix) {
		// Hides what layers below put into a folder: one name, or all of them. It spares what its
		// own layer has put there, in whatever order.
		hidden := strings.TrimPrefix(base, whiteoutPrefix)
		if hidden == "" || hidden == "." || hidden == ".." {
			return errEscapes
		}
		if t.mine == nil || (strings.HasPrefix(base, whiteoutMeta) && base != whiteoutOpaque) {
			return nil
		}
		parent, err := t.openDir(dir)
		if err != nil {
			if missing(err) {
				return nil // nothing there to hide
			}
			return err
		}
		defer unix.Close(parent)
		if base != whiteoutOpaque {
			return t.remove(parent, hidden)
		}
		names, err := hostile.List(parent)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := t.remove(parent, name); err != nil {
				return err
			}
		}
		return nil
	}
	parent, err := t.makeParent(dir)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		err = t.file(parent, base, h, content)
	case tar.TypeDir:
		err = t.folder(parent, base, h)
	case tar.TypeSymlink:
		err = t.replacing(parent, base, func() error { return unix.Symlinkat(h.Linkname, parent, base) })
	case tar.TypeLink:
		err = t.link(parent, base, h.Linkname)
	default:
		return hostile.RemoveAt(parent, base, nil)
	}
	if err != nil {
		return err
	}
	if h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeLink {
		setTime(parent, base, h.ModTime)
	}
	return t.own(parent, base)
}

// count adds to what the image takes, and refuses what is over the limits.
func (t *tree) count(entries, bytes int64) error {
	if bytes < 0 || bytes > t.limits.Bytes-t.bytes || entries > t.limits.Entries-t.entries {
		return tooLarge(t.limits)
	}
	t.entries += entries
	t.bytes += bytes
	return nil
}

// own notes that the current layer made or named an inode.
func (t *tree) own(parent int, base string) error {
	if t.mine == nil {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	t.mine[st.Ino] = struct{}{}
	return nil
}

// openDir opens a folder of the tree. The result is an O_PATH descriptor.
func (t *tree) openDir(dir string) (int, error) {
	dir = cmp.Or(dir, ".")
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	}
	for {
		fd, err := unix.Openat2(int(t.root.Fd()), dir, &how)
		// EAGAIN: something was renamed somewhere while ".." of a link was resolved (openat2(2)).
		if err != unix.EAGAIN && err != unix.EINTR {
			return fd, err
		}
	}
}

// missing reports whether err says that there is no folder of that name: nothing
// at all, something else, or a link that leads nowhere.
func missing(err error) bool {
	return err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP
}

// makeParent opens a folder, and makes it and those on the way to it where
// need be. Whatever else has one of their names makes way, as under an overlay.
func (t *tree) makeParent(dir string) (int, error) {
	fd, err := t.openDir(dir)
	if err == nil || !missing(err) {
		return fd, err
	}
	if fd, err = t.openDir(""); err != nil {
		return -1, err
	}
	parts := strings.Split(dir, "/")
	for i, base := range parts {
		next, err := t.openDir(strings.Join(parts[:i+1], "/"))
		if err != nil && missing(err) {
			if err = t.makeFolder(fd, base, 0o755); err == nil {
				next, err = t.openDir(strings.Join(parts[:i+1], "/"))
			}
		}
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

func (t *tree) makeFolder(parent int, base string, mode uint32) error {
	if err := t.count(1, 0); err != nil {
		return err
	}
	if err := t.replacing(parent, base, func() error { return unix.Mkdirat(parent, base, 0o700) }); err != nil {
		return err
	}
	if err := unix.Fchmodat(parent, base, mode, 0); err != nil {
		return err
	}
	return t.own(parent, base)
}

// replacing calls make, and once more after removing what was in its way.
func (t *tree) replacing(parent int, base string, make func() error) error {
	err := make()
	if err != unix.EEXIST {
		return err
	}
	if err := hostile.RemoveAt(parent, base, nil); err != nil {
		return err
	}
	return make()
}

// permissions are the bits that are kept of a mode: never set-user-ID,
// set-group-ID or sticky.
func permissions(h *tar.Header) uint32 { return uint32(h.Mode) & 0o777 }

// file writes a new file; one that has the name is replaced, never written
// through, since it may have other names.
func (t *tree) file(parent int, base string, h *tar.Header, content io.Reader) error {
	if err := t.count(0, h.Size); err != nil {
		return err
	}
	var fd int
	err := t.replacing(parent, base, func() (err error) {
		fd, err = unix.Openat(parent, base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	n, err := io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{content}, t.buf)
	if err == nil && n != h.Size {
		err = fmt.Errorf("%d bytes, want %d", n, h.Size)
	}
	if err == nil {
		err = unix.Fchmod(fd, permissions(h))
	}
	return errors.Join(err, f.Close())
}

// folder makes a folder, or gives one that is there the entry's mode. Its owner
// can always list and enter it: the cache has to be able to remove it.
func (t *tree) folder(parent int, base string, h *tar.Header) error {
	err := unix.Mkdirat(parent, base, 0o700)
	if err == unix.EEXIST {
		var st unix.Stat_t
		if err = unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			err = t.replacing(parent, base, func() error { return unix.Mkdirat(parent, base, 0o700) })
		}
	}
	if err != nil {
		return err
	}
	return unix.Fchmodat(parent, base, permissions(h)|0o700, 0)
}

// link gives a file of the tree another name. Its target is a path of the
// archive, so it is taken apart like one.
func (t *tree) link(parent int, base, target string) error {
	dir, name, err := splitName(target)
	if err != nil || name == "" {
		return fmt.Errorf("hard link to %q: %w", target, errEscapes)
	}
	from, err := t.openDir(dir)
	if err != nil {
		return fmt.Errorf("hard link to %q: %w", target, err)
	}
	defer unix.Close(from)
	var old, here unix.Stat_t
	if err := unix.Fstatat(from, name, &old, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("hard link to %q: %w", target, err)
	}
	if unix.Fstatat(parent, base, &here, unix.AT_SYMLINK_NOFOLLOW) == nil && here.Ino == old.Ino {
		return nil // another name of the same file already
	}
	err = t.replacing(parent, base, func() error { return unix.Linkat(from, name, parent, base, 0) })
	if err != nil {
		return fmt.Errorf("hard link to %q: %w", target, err)
	}
	return nil
}

// setTime sets a modification time, without which compiled Python is compiled
// again at each start. A time that the file system can't hold is left alone.
func setTime(parent int, base string, mod time.Time) {
	ts, err := unix.TimeToTimespec(mod)
	if err != nil {
		return
	}
	_ = unix.UtimesNanoAt(parent, base, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}

// Whiteouts (OCI image-spec, layer.md "Whiteouts").
const (
	whiteoutPrefix = ".wh."
	whiteoutMeta   = ".wh..wh." // what AUFS keeps for itself
	whiteoutOpaque = ".wh..wh..opq"
)

// remove removes what is called name in a folder, but for what the current layer has put there.
func (t *tree) remove(parent int, name string) error {
	return hostile.RemoveAt(parent, name, func(st *unix.Stat_t) bool {
		_, own := t.mine[st.Ino]
		return own
	})
}
