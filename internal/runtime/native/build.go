package native

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"forage/internal/rootfs"
)

// builder builds a sandbox's root filesystem from inside its mount namespace.
type builder struct {
	boot  boot
	files []*os.File // beside boot
	aside *aside

	tmpfs  int      // the sandbox's tmpfs
	root   int      // what becomes "/"
	plant  *planter // makes what is not there at "/"
	areas  []placedArea
	shares []*share
	fds    []int // to be closed in the end
}

// placedArea is a writable area with what makes files in it.
type placedArea struct {
	area
	plant *planter
}

// build makes the whole tree. It changes nothing outside the mount namespace.
func (b *builder) build() error {
	for _, s := range []struct {
		step string
		do   func() error
	}{
		{"preparing the process", b.prepare},
		{"making the root filesystem", b.makeTmpfs},
		{"opening what is mounted", b.openShares},
		{"making the root filesystem", b.makeRoot},
		{"making /dev", b.makeDev},
		{"making the writable folders", b.mountAreas},
		{"showing the host's system folders", b.mountSystem}, // and tools, which may be below /tmp or in a home of the same name
		{"mounting /proc", b.mountProc},
		{"making /sys", b.makeSys},
		{"putting our program inside", b.mountProgram},
		{"closing what is not for the agent", b.mountMasks},
		{"mounting", b.mountShares},
		{"putting files inside", b.placeFiles},
	} {
		if err := s.do(); err != nil {
			return &stepError{s.step, err}
		}
	}
	return nil
}

func (b *builder) close() {
	for _, f := range b.files {
		if f != nil {
			f.Close()
		}
	}
	b.closeFolders()
}

// closeFolders lets go of the folders that were built with.
func (b *builder) closeFolders() {
	for _, fd := range b.fds {
		unix.Close(fd)
	}
	b.fds = nil
}

// take returns a descriptor that came beside boot; it is the caller's then.
func (b *builder) take(i int) *os.File {
	f := b.files[i]
	b.files[i] = nil
	return f
}

// open returns a descriptor for what is to be mounted, and whether it is the detached mount itself.
func (b *builder) open(t tree) (fd int, mounted bool, err error) {
	if t.FD == 0 {
		fd, err = openSource(t.Source)
		return fd, false, err
	}
	if t.FD >= len(b.files) {
		return -1, false, fmt.Errorf("descriptor %d is missing", t.FD)
	}
	f := b.take(t.FD)
	defer f.Close()
	fd, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	return fd, true, err
}

// detach returns t as a detached mount with those attributes. A source that
// is optional and missing gives -1.
func (b *builder) detach(t tree, attrs uint64) (int, error) {
	fd, mounted, err := b.open(t)
	if err != nil {
		if t.Optional && os.IsNotExist(err) {
			return -1, nil
		}
		return -1, err
	}
	if mounted { // with its attributes
		return fd, nil
	}
	defer unix.Close(fd)
	return cloneTree(fd, attrs)
}

func (b *builder) makeTmpfs() (err error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if b.tmpfs, err = newTmpfs(b.boot.DiskMax, b.boot.Inodes); err != nil {
		return err
	}
	b.fds = append(b.fds, b.tmpfs)
	for _, dir := range []string{dirRoot, dirDev, dirForage, dirFiles, voidDir} {
		if err := unix.Mkdirat(b.tmpfs, dir, 0o755); err != nil {
			return fmt.Errorf("making %s: %w", dir, err)
		}
	}
	p := newPlanter(b.tmpfs)
	if err := p.file(inertFile, []byte{}, 0o444); err != nil {
		return err
	}
	// Mounted on themselves, so that every copy of them is read-only.
	for _, name := range []string{inertFile, voidDir} {
		fd, err := cloneAt(b.tmpfs, name, 0, attrReadOnly|unix.MOUNT_ATTR_NOEXEC)
		if err != nil {
			return err
		}
		if err := attach(fd, b.tmpfs, name); err != nil {
			return err
		}
	}
	return nil
}

// makeRoot makes what becomes "/".
func (b *builder) makeRoot() error {
	if len(b.boot.Lower) > 0 {
		return b.makeOverlay()
	}
	folder, err := openFolder(b.tmpfs, dirRoot)
	if err != nil {
		return err
	}
	b.fds = append(b.fds, folder)
	b.plant = newPlanter(folder)
	root, err := cloneAt(b.tmpfs, dirRoot, 0, attrReadOnly)
	if err != nil {
		return err
	}
	return b.attachRoot(root)
}

// attachRoot puts a detached mount at the place from which it becomes "/".
func (b *builder) attachRoot(root int) error {
	if err := unix.MoveMount(root, "", b.tmpfs, dirRoot, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		unix.Close(root)
		return fmt.Errorf("move_mount: %w", err)
	}
	b.root = root
	b.fds = append(b.fds, root)
	return nil
}

// makeOverlay makes an overlay of the layers, with its writable part on the tmpfs.
func (b *builder) makeOverlay() error {
	for _, dir := range []string{dirUpper, dirWork, dirLower} {
		if err := unix.Mkdirat(b.tmpfs, dir, 0o755); err != nil {
			return fmt.Errorf("making %s: %w", dir, err)
		}
	}
	if err := b.prepareUpper(); err != nil {
		return err
	}
	var layers []string
	for i, layer := range b.boot.Lower {
		at := path.Join(dirLower, strconv.Itoa(i))
		if err := b.mountLayer(layer, at); err != nil {
			return fmt.Errorf("%s: %w", layer.Source, err)
		}
		layers = append(layers, at)
	}
	root, err := b.overlay(layers)
	if err != nil {
		return err
	}
	b.plant = newPlanter(root)
	return b.attachRoot(root)
}

// prepareUpper makes, in the overlay's uppermost folder, the places that every
// sandbox has: where the image has a link instead, ours takes its place.
func (b *builder) prepareUpper() error {
	upper, err := openFolder(b.tmpfs, dirUpper)
	if err != nil {
		return err
	}
	defer unix.Close(upper)
	p := newPlanter(upper)
	folders := []string{"proc", "sys", "dev"}
	for _, a := range writableAreas(b.boot.Identity.Home) {
		if !rootfs.Within(a.target, "/dev") {
			folders = append(folders, relative(a.target))
		}
	}
	for _, folder := range folders {
		if err := p.folder(folder); err != nil {
			return err
		}
	}
	for _, f := range b.boot.Files {
		if rootfs.Within(f.Path, "/etc") {
			if err := p.file(relative(f.Path), nil, 0o444); err != nil {
				return err
			}
		}
	}
	return nil
}

// mountLayer shows a layer of the overlay in the tmpfs, which is as far as its paths have to go.
func (b *builder) mountLayer(layer tree, at string) error {
	if err := unix.Mkdirat(b.tmpfs, at, 0o755); err != nil {
		return fmt.Errorf("making %s: %w", at, err)
	}
	fd, err := b.detach(layer, attrReadOnly)
	if err != nil {
		return err
	}
	return attach(fd, b.tmpfs, at)
}

// overlay mounts an overlay with those layers, detached. Its folders are named relative
// to the tmpfs, which no path leads to, as the working directory.
func (b *builder) overlay(layers []string) (int, error) {
	if err := unix.Fchdir(b.tmpfs); err != nil {
		return -1, fmt.Errorf("fchdir: %w", err)
	}
	options := append([]option{{"userxattr", ""}}, lowerOptions(layers)...)
	return newFilesystem("overlay", attrInert, append(options, option{"upperdir", dirUpper}, option{"workdir", dirWork})...)
}

// lowerOptions names the layers of an overlay: all in one, as every kernel takes
// it, up to the length that fsconfig(2) takes; beyond it one by one (Linux 6.8).
func lowerOptions(layers []string) []option {
	const longest = 255
	if all := strings.Join(layers, ":"); len(all) <= longest {
		return []option{{"lowerdir", all}}
	}
	var options []option
	for _, layer := range layers {
		options = append(options, option{"lowerdir+", layer})
	}
	return options
}

func openFolder(dir int, name string) (int, error) {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("opening %s: %w", name, err)
	}
	return fd, nil
}

// mountSystem shows the host's own folders and files.
func (b *builder) mountSystem() error {
	for _, t := range b.boot.Mounts {
		if !t.System {
			continue
		}
		if err := b.mountPart(t); err != nil {
			return fmt.Errorf("%s: %w", t.Target, err)
		}
	}
	for _, l := range b.boot.Links {
		plant, rel := b.ownPlanter(l.Path)
		if err := plant.link(rel, l.Target); err != nil {
			return err
		}
	}
	return nil
}

// mountPart shows one part of the host's system, which nothing inside can change.
func (b *builder) mountPart(t tree) error {
	fd, mounted, err := b.open(t)
	if err != nil {
		if t.Optional && os.IsNotExist(err) {
			return nil
		}
		return err
	}
	folder, err := isFolder(fd)
	if err == nil && !b.systemHolds(t.Target) {
		err = b.makePlace(t.Target, folder)
	}
	mount := fd
	if err == nil && !mounted {
		mount, err = cloneTree(fd, attrReadOnly)
		unix.Close(fd)
	}
	if err != nil {
		return err
	}
	return attach(mount, b.root, relative(t.Target))
}

// makePlace makes the folder or file in the sandbox's own root on which something is mounted.
func (b *builder) makePlace(target string, folder bool) error {
	plant, rel := b.ownPlanter(target)
	if folder {
		return plant.folder(rel)
	}
	return plant.file(rel, nil, 0o444)
}

// ownPlanter returns what makes target, which no mount of the host's holds,
// and target's path there.
func (b *builder) ownPlanter(target string) (*planter, string) {
	for _, a := range b.areas {
		if target != a.target && rootfs.Within(target, a.target) {
			return a.plant, relative(target[len(a.target):])
		}
	}
	return b.plant, relative(target)
}

// systemHolds says whether another System mount holds target.
func (b *builder) systemHolds(target string) bool {
	for _, t := range b.boot.Mounts {
		if t.System && t.Target != target && rootfs.Within(target, t.Target) {
			return true
		}
	}
	return false
}

func isFolder(fd int) (bool, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, fmt.Errorf("fstat: %w", err)
	}
	return st.Mode&unix.S_IFMT == unix.S_IFDIR, nil
}

// mountAreas shows the writable folders of the tmpfs.
func (b *builder) mountAreas() error {
	for _, a := range writableAreas(b.boot.Identity.Home) {
		if err := unix.Mkdirat(b.tmpfs, a.dir, a.mode); err != nil {
			return fmt.Errorf("making %s: %w", a.dir, err)
		}
		if plant, rel := b.planterFor(a.target); plant != nil { // not what makeDev has made
			if err := plant.folder(rel); err != nil {
				return err
			}
		}
		mount, err := cloneAt(b.tmpfs, a.dir, 0, attrInert)
		if err != nil {
			return fmt.Errorf("%s: %w", a.target, err)
		}
		b.fds = append(b.fds, mount)
		if err := unix.MoveMount(mount, "", b.root, relative(a.target), unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("%s: move_mount: %w", a.target, err)
		}
		b.areas = append(b.areas, placedArea{a, newPlanter(mount)})
	}
	return nil
}
