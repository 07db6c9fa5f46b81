package child

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/mount"
	"forage/internal/rootfs"
)

// builder builds a sandbox's root filesystem from inside its mount namespace.
type builder struct {
	boot       boot
	files      []*os.File // beside boot
	background *background

	tmpfs  int      // the sandbox's tmpfs
	root   int      // what becomes "/"
	plant  *planter // makes what is not there at "/"
	areas  []placedArea
	binds  []*bind
	stored map[storedFile]string // where in tmpfs
	layers int                   // how many there are over binds
	fds    []int                 // to be closed in the end
}

// placedArea is a writable area with what makes files in it.
type placedArea struct {
	area
	plant *planter
}

// step is a part of the set-up, by the name that a failure is told with.
type step struct {
	name string
	do   func() error
}

func do(steps ...step) error {
	for _, s := range steps {
		if err := s.do(); err != nil {
			return &stepError{s.name, err}
		}
	}
	return nil
}

// build makes the whole tree. It changes nothing outside the mount namespace.
func (b *builder) build() error {
	return do([]step{
		{"preparing the process", b.prepare},
		{"making the root filesystem", b.makeTmpfs},
		{"opening what is mounted", b.openBinds},
		{"making the root filesystem", b.makeRoot},
		{"making /dev", b.makeDev},
		{"making the writable folders", b.mountAreas},
		{"showing the host's system folders", b.mountSystem}, // and tools, which may be below /tmp or in a home of the same name
		{"mounting /proc", b.makeProc},
		{"making /sys", b.makeSys},
		{"putting our program inside", b.mountProgram},
		{"closing what is not for the agent", b.mountMasks},
		{"mounting", b.mountBinds},
		{"putting files inside", b.placeFiles},
	}...)
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
		if fd, err = mount.Open(t.Source); err == nil {
			err = t.same(fd)
		}
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

// same says whether what was opened is still what the parent looked at. An engine has opened it by
// its path once more.
func (t tree) same(fd int) error {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if err == nil && t.Inode != 0 && (st.Dev != t.Device || st.Ino != t.Inode) {
		err = errors.New("what is there is not what the host looked at before: it was exchanged")
	}
	if err != nil {
		unix.Close(fd)
	}
	return err
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
	return mount.CloneTree(fd, attrs)
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
		fd, err := mount.CloneAt(b.tmpfs, name, 0, mount.ReadOnly|unix.MOUNT_ATTR_NOEXEC)
		if err != nil {
			return err
		}
		if err := mount.Attach(fd, b.tmpfs, name); err != nil {
			return err
		}
	}
	return nil
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
			return b.about(t.Target, err)
		}
	}
	for _, l := range b.boot.Links {
		plant, rel := b.ownPlanter(l.Path)
		if err := plant.link(rel, l.Target); err != nil {
			return b.about(l.Path, err)
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
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("fstat: %w", err)
	}
	held := slices.ContainsFunc(b.boot.Mounts, func(other tree) bool {
		return other.System && other.Target != t.Target && rootfs.Within(t.Target, other.Target)
	})
	switch plant, rel := b.ownPlanter(t.Target); {
	case held:
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		err = plant.folder(rel)
	default:
		err = plant.file(rel, nil, 0o444)
	}
	made := fd
	if err == nil && !mounted {
		made, err = mount.CloneTree(fd, mount.ReadOnly)
		unix.Close(fd)
	}
	if err != nil {
		return err
	}
	return mount.Attach(made, b.root, relative(t.Target))
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

// mountAreas shows the writable folders of the tmpfs.
func (b *builder) mountAreas() error {
	for _, a := range writableAreas(b.boot.Identity.Home) {
		if plant, rel := b.planterFor(a.target); plant != nil { // not what makeDev has made
			if err := plant.folder(rel); err != nil {
				return err
			}
		}
		made, err := -1, error(nil)
		if b.isKept(a) {
			made, err = b.detach(b.boot.Home, mount.Inert)
		} else if err = unix.Mkdirat(b.tmpfs, a.dir, a.mode); err == nil {
			made, err = mount.CloneAt(b.tmpfs, a.dir, 0, mount.Inert)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", a.target, err)
		}
		b.fds = append(b.fds, made)
		if err := unix.MoveMount(made, "", b.root, relative(a.target), unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("%s: move_mount: %w", a.target, err)
		}
		plant := newPlanter(made)
		plant.kept = b.isKept(a)
		b.areas = append(b.areas, placedArea{a, plant})
	}
	return nil
}

// about says what an error is about. In a kept home the agent may have put something in the way.
func (b *builder) about(target string, err error) error {
	err = fmt.Errorf("%s: %w", target, err)
	if b.boot.Home.Source != "" && rootfs.Within(target, b.boot.Identity.Home) && forage.Hint(err) == "" {
		return forage.WithHint(err, "`forage-ctl reset "+b.boot.Name+"` gives the sandbox a new, empty home")
	}
	return err
}

func (b *builder) isKept(a area) bool { return a.dir == dirHome && b.boot.Home.Source != "" }
