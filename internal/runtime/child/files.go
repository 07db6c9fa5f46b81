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

// placeFiles puts generated files inside, where the agent can't change them
// unless they are its own.
func (b *builder) placeFiles() error {
	b.stored = make(map[storedFile]string)
	for i, f := range b.boot.Files {
		if f.Mode == 0 {
			f.Mode = 0o444
		}
		if f.Content == nil {
			f.Content = []byte{}
		}
		place := b.placeFile
		if f.Owned {
			place = b.placeOwned
		}
		if err := place(fmt.Sprintf("%s/%d", dirFiles, i), f); err != nil {
			return b.about(f.Path, err)
		}
	}
	return nil
}

// storedFile is a file in the tmpfs that can be shown in more than one place.
type storedFile struct {
	content content
	mode    uint32
}

func (b *builder) placeFile(hidden string, f forage.File) error {
	store := newPlanter(b.tmpfs)
	if rootfs.Within(f.Path, forage.RunPath) {
		own := path.Join(dirForage, relative(f.Path[len(forage.RunPath):]))
		b.stored[storedFile{contentOf(f), f.Mode}] = own
		return store.file(own, f.Content, f.Mode)
	}
	plant, rel := b.planterFor(f.Path)
	mounted := b.boot.mounted(f.Path)
	if plant == b.plant && len(b.boot.Lower) == 0 && !mounted {
		return plant.file(rel, f.Content, f.Mode) // "/" is read-only there
	}
	if own, ok := b.stored[storedFile{contentOf(f), f.Mode}]; ok && len(f.Content) > 0 {
		hidden = own
	} else if err := store.file(hidden, f.Content, f.Mode); err != nil {
		return err
	}
	var at int
	var err error
	if mounted { // over what is there
		at, err = hostile.OpenBelow(b.root, relative(f.Path), unix.O_PATH)
	} else {
		at, err = b.place(f.Path, false)
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	fd, err := mount.CloneAt(b.tmpfs, hidden, 0, mount.ReadOnly)
	if err != nil {
		return err
	}
	return mount.Attach(fd, at, "")
}

// placeOwned makes a file of the agent's own, which we are inside: it and the
// folders on the way are as if the agent had made them.
func (b *builder) placeOwned(_ string, f forage.File) error {
	plant, rel := b.planterFor(f.Path)
	home := b.boot.Identity.Home
	switch {
	case f.Path == home || !rootfs.Within(f.Path, home):
		return errors.New("a file of the agent's is below its home")
	case plant == nil || b.boot.mounted(f.Path):
		return forage.WithHint(errors.New("it would be in a folder of yours that is mounted there"),
			"leave out that mount: Forage makes nothing in your folders")
	}
	return plant.own(rel, f)
}
