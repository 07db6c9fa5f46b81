package child

import (
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/hostile"
	"forage/internal/mount"
	"forage/internal/rootfs"
)

// bind is a file or folder of the user's that is mounted.
type bind struct {
	tree
	mount int       // detached until it is attached
	scan  *treeScan // nil for a file
}

// openBinds opens the sandbox's mounts and begins to look through them for
// what must not be reached, which takes the longest.
func (b *builder) openBinds() error {
	for _, t := range b.boot.Mounts {
		if t.System {
			continue
		}
		attrs := uint64(mount.ReadOnly)
		if t.Writable {
			attrs = mount.Inert
		}
		fd, err := b.detach(t, attrs)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Target, err)
		}
		if fd < 0 {
			continue
		}
		if t.Layered {
			if fd, err = b.layer(fd); err != nil {
				return fmt.Errorf("%s: %w", t.Target, err)
			}
		}
		s := &bind{tree: t, mount: fd}
		if t.Folder && !t.Layered {
			s.scan = startScan(fd)
		}
		b.binds = append(b.binds, s)
	}
	return nil
}

// mountBinds attaches the binds, outer ones first, each with its masks
// before another is attached inside it.
func (b *builder) mountBinds() error {
	for _, s := range b.binds {
		if err := b.mountBind(s); err != nil {
			return b.about(s.Target, err)
		}
	}
	return nil
}

func (b *builder) mountBind(s *bind) error {
	defer unix.Close(s.mount)
	at, err := b.place(s.Target, s.Folder)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := unix.MoveMount(s.mount, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	if s.scan == nil {
		return nil
	}
	found, err := s.scan.wait()
	if err != nil {
		return err
	}
	for _, special := range found {
		if err := b.maskBelow(s.mount, special); err != nil {
			return fmt.Errorf("masking %q: %w", special.path, err)
		}
	}
	return b.hold(s)
}

// maskBelow shows something empty in place of a file that was found in a bind.
func (b *builder) maskBelow(bind int, special specialFile) error {
	at, err := hostile.OpenBelow(bind, special.path, unix.O_PATH)
	if errors.Is(err, unix.ENOENT) {
		return nil // gone since
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	with := inertFile
	if special.folder {
		with = voidDir
	}
	return b.mask(with, at, "")
}

// place returns a descriptor for the place inside at which something is mounted. It is
// made where the sandbox's own tmpfs is; in what belongs to the host nothing is ever made.
func (b *builder) place(target string, folder bool) (int, error) {
	if plant, rel := b.planterFor(target); plant != nil {
		var err error
		if folder {
			err = plant.folder(rel)
		} else {
			err = plant.file(rel, nil, 0o444)
		}
		if err != nil {
			return -1, err
		}
	}
	fd, err := hostile.OpenBelow(b.root, relative(target), unix.O_PATH)
	switch {
	case errors.Is(err, unix.ENOENT):
		return -1, forage.WithHint(errors.New("there is no such place in what is mounted around it"),
			"make it on the host, or mount somewhere else: Forage makes nothing in your folders")
	case errors.Is(err, unix.ELOOP):
		return -1, errors.New("a symbolic link is on the way")
	case err != nil:
		return -1, fmt.Errorf("opening: %w", err)
	}
	return fd, nil
}

// planterFor returns what can make target, and target's path there; nil where the
// host's files are.
func (b *builder) planterFor(target string) (*planter, string) {
	best, holder := -1, (*planter)(nil)
	consider := func(dir string, p *planter) {
		if target != dir && rootfs.Within(target, dir) && len(dir) > best {
			best, holder = len(dir), p
		}
	}
	consider("/", b.plant)
	for _, a := range b.areas {
		consider(a.target, a.plant)
	}
	for _, t := range b.boot.Mounts {
		consider(t.Target, nil)
	}
	for _, dir := range []string{"/proc", "/sys", "/dev", forage.RunPath} {
		consider(dir, nil)
	}
	if holder == nil {
		return nil, ""
	}
	return holder, relative(target[best:])
}

// mountProgram shows our executable and the folder that is ours.
func (b *builder) mountProgram() error {
	p := newPlanter(b.tmpfs)
	own := path.Join(dirForage, path.Base(Program))
	if err := p.file(own, []byte{}, 0o555); err != nil {
		return err
	}
	for _, name := range forage.Browsers() {
		if err := p.link(path.Join(dirForage, path.Base(forage.BrowsersPath), name), Program); err != nil {
			return err
		}
	}
	program, err := b.detach(b.boot.Program, mount.ReadOnly)
	if err != nil {
		return err
	}
	folder, err := mount.CloneAt(b.tmpfs, dirForage, 0, mount.ReadOnly)
	if err != nil {
		return err
	}
	place, err := b.place(forage.RunPath, true)
	if err != nil {
		return err
	}
	defer unix.Close(place)
	if err := mount.Attach(folder, place, ""); err != nil {
		return err
	}
	return mount.Attach(program, b.root, relative(Program))
}

// mountMasks closes the sockets of the host that are below its system folders.
func (b *builder) mountMasks() error {
	for _, target := range b.boot.Masks {
		at, err := hostile.OpenBelow(b.root, relative(target), unix.O_PATH)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%q: %w", target, err)
		}
		err = b.mask(inertFile, at, "")
		unix.Close(at)
		if err != nil {
			return fmt.Errorf("%q: %w", target, err)
		}
	}
	return nil
}
