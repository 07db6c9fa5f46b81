package child

import (
	"forage"
)

// boot is what a guest is to build: the blob of control.Boot. The descriptors
// beside it are Request.SSH, Request.Log if there is one, and the detached mounts that
// trees name.
type boot struct {
	// Trial asks for no sandbox but for trying out what making one takes.
	Trial    bool
	Name     string
	Identity forage.Identity
	// DropGroups: setgroups(2) is allowed in the user namespace, and the child has to call it.
	DropGroups bool
	DiskMax    int64 // bytes of the tmpfs, never 0
	Inodes     int64
	TasksMax   int64
	Nesting    bool
	// Lower are the layers of an overlay, uppermost first; none for the host's view.
	Lower  []tree
	Mounts []tree // sorted: what holds another comes first
	// Home is the kept home; without a source it is in the tmpfs.
	Home  tree
	Links []forage.Link
	Files []forage.File
	// Masks are the host's sockets below the mounts that are not looked through.
	Masks []string
	// Protect are the paths that are read-only, and stay, where they are in a writable bind.
	Protect []string
	// Program is our own executable.
	Program tree
	// HasLog: the second descriptor is Request.Log; the first is always Request.SSH.
	HasLog bool
	// Seal: a Container's guest makes its root what it should be, whatever the program has made of it.
	Seal bool
	// OwnKernel: the container has a kernel of its own, whose quotas are not the host's.
	OwnKernel bool
	Guest     []byte // Request.Guest
	// Exec is the command line of a Container, and Bundle its config.json; none in what goes to the
	// guest.
	Exec   []string
	Bundle string
}

// tree is something of the host to be mounted.
type tree struct {
	forage.Mount
	// FD is the index of the descriptor that is the detached mount itself, made
	// by the parent; 0 (which is Request.SSH) says that the child opens Source.
	FD int
	// Folder: Source is a folder. It is not set for a System mount that the child opens.
	Folder bool
	// Device and Inode are what Source was when the parent looked at it; 0 where it did not.
	Device, Inode uint64
}

func (b *boot) encode() []byte {
	room := 4 << 10
	for _, f := range b.Files {
		room += len(f.Content)
	}
	c := &codec{b: make([]byte, 0, room)}
	b.code(c)
	return c.b
}

func decodeBoot(blob []byte) (b boot, err error) {
	c := &codec{b: blob, reading: true}
	b.code(c)
	if c.err == nil && len(c.b) > 0 {
		c.fail()
	}
	return b, c.err
}

func (b *boot) code(c *codec) {
	c.flags(&b.Trial, &b.DropGroups, &b.Nesting, &b.HasLog, &b.Seal, &b.OwnKernel)
	text(c, &b.Name)
	text(c, &b.Identity.User)
	text(c, &b.Identity.Home)
	for _, n := range []*int{&b.Identity.UID, &b.Identity.GID, &b.Identity.HostUID, &b.Identity.HostGID} {
		number(c, n)
	}
	for _, n := range []*int64{&b.DiskMax, &b.Inodes, &b.TasksMax} {
		number(c, n)
	}
	list(c, &b.Lower, (*codec).tree)
	list(c, &b.Mounts, (*codec).tree)
	c.tree(&b.Home)
	list(c, &b.Links, func(c *codec, l *forage.Link) { text(c, &l.Path); text(c, &l.Target) })
	b.codeFiles(c)
	list(c, &b.Masks, text[string])
	list(c, &b.Protect, text[string])
	c.tree(&b.Program)
	text(c, &b.Guest)
	list(c, &b.Exec, text[string])
	text(c, &b.Bundle)
}

func (c *codec) tree(t *tree) {
	c.flags(&t.Writable, &t.Optional, &t.System, &t.Folder, &t.Layered, &t.Volume)
	text(c, &t.Source)
	text(c, &t.Target)
	number(c, &t.FD)
	number(c, &t.Device)
	number(c, &t.Inode)
}

// codeFiles has a content that several files share once: certificates are
// many, and are shown in more than one place.
func (b *boot) codeFiles(c *codec) {
	var done []forage.File
	seen := make(map[content]int) // the number of the first file that has it
	list(c, &b.Files, func(c *codec, f *forage.File) {
		text(c, &f.Path)
		number(c, &f.Mode)
		c.flags(&f.Owned, &f.Renew)
		first := seen[contentOf(*f)] // 0 of one that is being read
		number(c, &first)
		switch {
		case first == 0:
			text(c, &f.Content)
		case first < 0 || first > len(done):
			c.fail()
		default:
			f.Content = done[first-1].Content
		}
		done = append(done, *f)
		if first == 0 && len(f.Content) > 0 {
			seen[contentOf(*f)] = len(done)
		}
	})
}

// content tells contents apart that are shared from those that are alike.
type content struct {
	first  *byte
	length int
}

func contentOf(f forage.File) content {
	if len(f.Content) == 0 {
		return content{}
	}
	return content{&f.Content[0], len(f.Content)}
}
