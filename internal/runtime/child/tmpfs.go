package child

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/hostile"
	"forage/internal/mount"
	"forage/internal/rootfs"
)

// Folders of the sandbox's one tmpfs, and where they are shown. All that is
// writable inside and not mounted from the host is in one of them, so that
// its size bounds them together.
//
//	root/    the read-only "/" of a host view
//	upper/ work/ lower/N    of an overlay, which is then attached at root/
//	layers/N/    lower, upper and work of a bind with a layer over it
//	home/    the agent's home, unless it is kept on the host
//	tmp/ vartmp/ shm/ run/
//	dev/     /dev, read-only inside
//	forage/  forage.RunPath, likewise
//	files/   generated files that are shown where the agent may write, read-only
//	bundle/ state/    of a Container
//	inert    an empty file, shown over what must not be reached
//	void/    an empty folder, likewise
const (
	dirRoot   = "root"
	dirUpper  = "upper"
	dirWork   = "work"
	dirLower  = "lower"
	dirLayers = "layers"
	dirDev    = "dev"
	dirForage = "forage"
	dirFiles  = "files"
	dirHome   = "home"
	dirBundle = "bundle"
	dirState  = "state"
	inertFile = "inert"
	voidDir   = "void"
)

// area is a folder of the tmpfs that is shown, writable, at a path inside.
type area struct {
	dir, target string
	mode        uint32
}

// showsHost says whether a mount in the area lets the agent make files that the host's programs
// meet. The private parts of repositories are read by Forage alone, as data.
func (a area) showsHost(t tree) bool {
	return t.Writable && !t.Volume && rootfs.Within(t.Target, a.target) && !rootfs.Within(t.Target, forage.RepositoriesPath)
}

func writableAreas(home string) []area {
	return []area{
		{"tmp", "/tmp", 0o1777},
		{"vartmp", "/var/tmp", 0o1777},
		{"shm", "/dev/shm", 0o1777},
		{"run", "/run", 0o755},
		{dirHome, home, 0o700},
	}
}

// newTmpfs makes the sandbox's tmpfs, attached over the old root, where no
// path leads; its descriptor is the only way to it.
func newTmpfs(size, inodes int64) (int, error) {
	fd, err := mount.New("tmpfs", mount.Inert,
		mount.Option{"size", strconv.FormatInt(size, 10)},
		mount.Option{"nr_inodes", strconv.FormatInt(inodes, 10)},
		mount.Option{"mode", "0755"})
	if err != nil {
		return -1, err
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("move_mount: %w", err)
	}
	return fd, nil
}

// planter makes folders and files in a tree that does not change meanwhile. It never goes through a
// symbolic link.
type planter struct {
	// kept: the tree is a home that was used before. The agent may have left anything
	// anywhere in it: links, FIFOs, folders in place of files.
	kept  bool
	dir   int             // the tree's root
	known map[string]bool // paths relative to it that are real folders
}

func newPlanter(dir int) *planter {
	return &planter{dir: dir, known: map[string]bool{"": true, ".": true}}
}

// folder makes the folder at rel and those above it, with mode 0755.
func (p *planter) folder(rel string) error {
	if p.known[rel] {
		return nil
	}
	if err := p.folder(parentOf(rel)); err != nil {
		return err
	}
	err := unix.Mkdirat(p.dir, rel, 0o755)
	if errors.Is(err, unix.EEXIST) {
		err = p.verify(rel)
	}
	if err != nil {
		return fmt.Errorf("making the folder /%s: %w", rel, err)
	}
	p.known[rel] = true
	return nil
}

// verify reports whether rel is a folder with no link on the way to it.
func (p *planter) verify(rel string) error {
	fd, err := hostile.OpenBelow(p.dir, rel, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// file makes a file with that content. One that is there already keeps it when content is nil.
func (p *planter) file(rel string, content []byte, mode uint32) error {
	if err := p.folder(parentOf(rel)); err != nil {
		return err
	}
	flags := unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(p.dir, rel, flags, mode)
	if err != nil {
		if content == nil && errors.Is(err, unix.EEXIST) {
			return nil
		}
		return fmt.Errorf("making the file /%s: %w", rel, err)
	}
	defer unix.Close(fd)
	for len(content) > 0 {
		n, err := unix.Write(fd, content)
		if err != nil {
			return fmt.Errorf("writing the file /%s: %w", rel, err)
		}
		content = content[n:]
	}
	return nil
}

// own makes a file that belongs to the agent. In a kept home it leaves alone what is there
// already, unless it is renewed.
func (p *planter) own(rel string, f forage.File) error {
	if p.kept && f.Renew {
		if err := p.folder(parentOf(rel)); err != nil {
			return err
		}
		if err := unix.Unlinkat(p.dir, rel, 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("replacing the file /%s: %w", rel, err)
		}
	}
	err := p.file(rel, f.Content, f.Mode)
	taken := errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
	if p.kept && !f.Renew && taken {
		return nil
	}
	return err
}

func (p *planter) link(rel, text string) error {
	if err := p.folder(parentOf(rel)); err != nil {
		return err
	}
	err := unix.Symlinkat(text, p.dir, rel)
	if p.kept && errors.Is(err, unix.EEXIST) {
		return nil // from an earlier start, or the agent's own since
	}
	if err != nil {
		return fmt.Errorf("making the link /%s: %w", rel, err)
	}
	return nil
}

// parentOf is path.Dir for a relative path, "" for one at the top.
func parentOf(rel string) string {
	if i := strings.LastIndexByte(rel, '/'); i >= 0 {
		return rel[:i]
	}
	return ""
}

// relative turns an absolute path inside into one relative to the root.
func relative(abs string) string { return strings.TrimPrefix(path.Clean(abs), "/") }
