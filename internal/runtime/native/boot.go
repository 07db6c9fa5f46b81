package native

import (
	"forage"
)

// boot is what a guest is to build: the blob of frames.Boot. The descriptors
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
	// TasksCeiling bounds the sandbox where TasksMax is 0; 0 where the kernel would count the caller's own.
	TasksCeiling int64
	Nesting      bool
	// Lower are the layers of an overlay, uppermost first; none for the host's view.
	Lower  []tree
	Mounts []tree // sorted: what holds another comes first
	// Home is the kept home; without a source it is in the tmpfs.
	Home  tree
	Links []forage.Link
	Files []forage.File
	// Masks are the host's sockets below the mounts that are not looked through.
	Masks []string
	// Protect are the paths that are read-only, and stay, where they are in a writable share.
	Protect []string
	// Program is our own executable.
	Program tree
	// HasLog: the second descriptor is Request.Log; the first is always Request.SSH.
	HasLog bool
	Guest  []byte // Request.Guest
}

// tree is something of the host to be mounted.
type tree struct {
	forage.Mount
	// FD is the index of the descriptor that is the detached mount itself, made
	// by the parent; 0 (which is Request.SSH) says that the child opens Source.
	FD int
	// Folder: Source is a folder. It is not set for a System mount that the child opens.
	Folder bool
}

func (b *boot) encode() []byte {
	room := 4 << 10
	for _, f := range b.Files {
		room += len(f.Content)
	}
	w := &writer{b: make([]byte, 0, room)}
	w.flags(b.Trial, b.DropGroups, b.Nesting, b.HasLog)
	w.text(b.Name)
	w.text(b.Identity.User)
	w.text(b.Identity.Home)
	for _, n := range []int{b.Identity.UID, b.Identity.GID, b.Identity.HostUID, b.Identity.HostGID} {
		w.number(int64(n))
	}
	for _, n := range []int64{b.DiskMax, b.Inodes, b.TasksMax, b.TasksCeiling} {
		w.number(n)
	}
	writeList(w, b.Lower, writeTree)
	writeList(w, b.Mounts, writeTree)
	writeTree(w, b.Home)
	writeList(w, b.Links, func(w *writer, l forage.Link) { w.text(l.Path); w.text(l.Target) })
	b.encodeFiles(w)
	writeList(w, b.Masks, (*writer).text)
	writeList(w, b.Protect, (*writer).text)
	writeTree(w, b.Program)
	w.text(string(b.Guest))
	return w.b
}

func writeTree(w *writer, t tree) {
	w.flags(t.Writable, t.Optional, t.System, t.Folder, t.Layered, t.Volume)
	w.text(t.Source)
	w.text(t.Target)
	w.number(int64(t.FD))
}

func decodeBoot(blob []byte) (boot, error) {
	var b boot
	r := &reader{b: blob}
	r.flags(&b.Trial, &b.DropGroups, &b.Nesting, &b.HasLog)
	b.Name = r.text()
	b.Identity.User = r.text()
	b.Identity.Home = r.text()
	for _, n := range []*int{&b.Identity.UID, &b.Identity.GID, &b.Identity.HostUID, &b.Identity.HostGID} {
		*n = int(r.number())
	}
	for _, n := range []*int64{&b.DiskMax, &b.Inodes, &b.TasksMax, &b.TasksCeiling} {
		*n = r.number()
	}
	b.Lower = list(r, readTree)
	b.Mounts = list(r, readTree)
	b.Home = readTree(r)
	b.Links = list(r, func(r *reader) forage.Link { return forage.Link{Path: r.text(), Target: r.text()} })
	b.Files = decodeFiles(r)
	b.Masks = list(r, (*reader).text)
	b.Protect = list(r, (*reader).text)
	b.Program = readTree(r)
	b.Guest = []byte(r.text())
	if r.err == nil && len(r.b) > 0 {
		r.fail()
	}
	return b, r.err
}

func readTree(r *reader) tree {
	var t tree
	r.flags(&t.Writable, &t.Optional, &t.System, &t.Folder, &t.Layered, &t.Volume)
	t.Source = r.text()
	t.Target = r.text()
	t.FD = int(r.number())
	return t
}

// encodeFiles writes a content that several files share once: certificates are
// many, and are shown in more than one place.
func (b *boot) encodeFiles(w *writer) {
	number := 0
	seen := make(map[content]int) // the number of the first file that has it
	writeList(w, b.Files, func(w *writer, f forage.File) {
		number++
		w.text(f.Path)
		w.number(int64(f.Mode))
		w.flags(f.Owned, f.Renew)
		first := seen[contentOf(f)]
		w.number(int64(first))
		if first > 0 {
			return
		}
		w.bytes(f.Content)
		if len(f.Content) > 0 {
			seen[contentOf(f)] = number
		}
	})
}

func decodeFiles(r *reader) []forage.File {
	var before []forage.File
	return list(r, func(r *reader) forage.File {
		f := forage.File{Path: r.text(), Mode: uint32(r.number())}
		r.flags(&f.Owned, &f.Renew)
		switch first := r.number(); {
		case first == 0:
			f.Content = []byte(r.text())
		case first < 0 || first > int64(len(before)):
			r.fail()
		default:
			f.Content = before[first-1].Content
		}
		before = append(before, f)
		return f
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
