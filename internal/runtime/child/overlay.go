package child

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/mount"
	"forage/internal/rootfs"
)

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
	root, err := mount.CloneAt(b.tmpfs, dirRoot, 0, mount.ReadOnly)
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
	for i, layer := range b.boot.Lower { // in the tmpfs, which is as far as their paths have to go
		at := path.Join(dirLower, strconv.Itoa(i))
		err := unix.Mkdirat(b.tmpfs, at, 0o755)
		fd := -1
		if err == nil {
			fd, err = b.detach(layer, mount.ReadOnly)
		}
		if err == nil {
			err = mount.Attach(fd, b.tmpfs, at)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", layer.Source, err)
		}
		layers = append(layers, at)
	}
	root, err := b.overlay(layers, dirUpper, dirWork)
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
		if rootfs.Within(f.Path, "/etc") && !f.Owned {
			if err := p.file(relative(f.Path), nil, 0o444); err != nil {
				return err
			}
		}
	}
	return nil
}

// layer returns an overlay, detached, of the detached mount lower and of a new folder that takes
// what is written.
func (b *builder) layer(lower int) (int, error) {
	at := path.Join(dirLayers, strconv.Itoa(b.layers))
	below, upper, work := at+"/lower", at+"/upper", at+"/work"
	for _, dir := range []string{dirLayers, at, below, upper, work} {
		if err := unix.Mkdirat(b.tmpfs, dir, 0o755); err != nil && (dir != dirLayers || b.layers == 0) {
			unix.Close(lower)
			return -1, fmt.Errorf("making %s: %w", dir, err)
		}
	}
	b.layers++
	if err := mount.Attach(lower, b.tmpfs, below); err != nil {
		return -1, err
	}
	fd, err := b.overlay([]string{below}, upper, work)
	return fd, forage.WithHint(err, "its file system may not go under an overlay; if it is a cache, leave it out of caches in the template")
}

// overlay mounts an overlay with those layers, detached. Its folders are named relative
// to the tmpfs, which no path leads to, as the working directory.
func (b *builder) overlay(layers []string, upper, work string) (int, error) {
	if err := unix.Fchdir(b.tmpfs); err != nil {
		return -1, fmt.Errorf("fchdir: %w", err)
	}
	options := append([]mount.Option{{"userxattr", ""}}, lowerOptions(layers)...)
	return mount.New("overlay", mount.Inert, append(options, mount.Option{"upperdir", upper}, mount.Option{"workdir", work})...)
}

// lowerOptions names the layers of an overlay: all in one, as every kernel takes
// it, up to the length that fsconfig(2) takes; beyond it one by one (Linux 6.8).
func lowerOptions(layers []string) []mount.Option {
	const longest = 255
	if all := strings.Join(layers, ":"); len(all) <= longest {
		return []mount.Option{{"lowerdir", all}}
	}
	var options []mount.Option
	for _, layer := range layers {
		options = append(options, mount.Option{"lowerdir+", layer})
	}
	return options
}
