package child

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/mount"
	"forage/internal/rootfs"
	"forage/internal/runtime"
)

// plan gathers what a guest is to build.
type plan struct {
	ids     idMaps
	req     runtime.Request
	lower   []tree
	mounts  []tree
	home    tree // without a source: none is kept
	program tree
	files   []*os.File                 // detached mounts, beside SSH and Log
	place   func(source string) string // Config.Place
}

func (p *plan) close() { closeFiles(p.files...) }

// boot returns the guest's instructions and the descriptors that go with them.
func (p *plan) boot() (boot, []*os.File, error) {
	spec := p.req.Spec
	b := boot{
		Name:     spec.Name,
		Identity: spec.Identity,
		DiskMax:  spec.Limits.DiskMax,
		TasksMax: spec.Limits.TasksMax,

		Nesting: spec.Security.NestedNamespaces,
		Lower:   p.lower,
		Mounts:  p.mounts,
		Home:    p.home,
		Links:   spec.Links,
		Files:   spec.Files,
		Protect: protected(spec),
		Program: p.program,
		HasLog:  p.req.Log != nil,
		Guest:   p.req.Guest,
	}
	if b.DiskMax == 0 {
		b.DiskMax = defaultDisk()
	}
	b.Inodes = max(minInodes, b.DiskMax/bytesPerInode)
	var err error
	if b.Masks, err = socketsBelow(p.mounts); err != nil {
		return b, nil, err
	}
	if p.place != nil {
		for _, trees := range [][]tree{b.Lower, b.Mounts} {
			for i := range trees {
				trees[i].Source = p.place(trees[i].Source)
			}
		}
		b.Program.Source = p.place(b.Program.Source)
		if b.Home.Source != "" {
			b.Home.Source = p.place(b.Home.Source)
		}
	}
	return b, p.beside(&b), nil
}

// beside puts the descriptors in order and says in b where each is.
func (p *plan) beside(b *boot) []*os.File {
	files := []*os.File{p.req.SSH}
	if b.HasLog {
		files = append(files, p.req.Log)
	}
	offset := len(files)
	for _, trees := range [][]tree{b.Lower, b.Mounts} {
		for i := range trees {
			trees[i].shift(offset)
		}
	}
	b.Home.shift(offset)
	b.Program.shift(offset)
	return append(files, p.files...)
}

// shift turns an index into plan.files, from 1, into one of what is sent.
func (t *tree) shift(offset int) {
	if t.FD > 0 {
		t.FD += offset - 1
	}
}

// The size of the tmpfs when the template says nothing: it is memory, so it is
// a part of it, and bounded, for there may be many sandboxes.
const (
	defaultDiskMax = 4 << 30
	bytesPerInode  = 16 << 10
	minInodes      = 16 << 10
)

func defaultDisk() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 1 << 30
	}
	return min(defaultDiskMax, int64(uint64(info.Totalram)*uint64(info.Unit)/4))
}

// open checks that every source is there and is a plain file or folder, and
// makes mounts of them when root calls.
func (p *plan) open(program string) error {
	real, err := realPath(program)
	if err != nil {
		return err
	}
	if p.program, err = p.openTree(forage.Mount{Source: real, Target: Program}, false); err != nil {
		return err
	}
	if err := p.openLower(); err != nil {
		return err
	}
	if spec := p.req.Spec; spec.KeptHome != "" {
		p.home, err = p.openTree(forage.Mount{Source: spec.KeptHome, Target: spec.Identity.Home, Writable: true}, true)
		if err != nil {
			return fmt.Errorf("opening the home: %w", err)
		}
	}
	return p.openMounts()
}

// realPath is where the file of program is, which may be selfExe.
func realPath(program string) (string, error) {
	real, err := filepath.EvalSymlinks(program)
	if program == selfExe {
		real, err = os.Readlink(program) // which may say "(deleted)"
	}
	if err != nil {
		return "", fmt.Errorf("finding the running program: %w", err)
	}
	running, errRunning := os.Stat(program)
	there, errThere := os.Stat(real)
	if errRunning != nil || errThere != nil || !os.SameFile(running, there) {
		return "", forage.WithHint(
			forage.Errorf(forage.ErrStart, "the running program is no longer at %s", strings.TrimSuffix(real, " (deleted)")),
			"it was replaced while it ran: start it again")
	}
	return real, nil
}

// openLower opens the layers of an image or folder.
func (p *plan) openLower() error {
	rootfs := p.req.Spec.Rootfs
	if rootfs.Kind == forage.RootfsHost {
		return nil
	}
	if len(rootfs.Lower) == 0 {
		return forage.Errorf(forage.ErrStart, "the root filesystem %s:%s has not been unpacked", rootfs.Kind, rootfs.Ref)
	}
	for _, dir := range rootfs.Lower {
		t, err := p.openTree(forage.Mount{Source: dir, Target: "/"}, true)
		if err != nil {
			return fmt.Errorf("opening the root filesystem: %w", err)
		}
		p.lower = append(p.lower, t)
	}
	return nil
}

// openMounts opens the sandbox's own mounts, sorted so that what holds another comes first.
func (p *plan) openMounts() error {
	mounts := slices.Clone(p.req.Spec.Mounts)
	slices.SortStableFunc(mounts, func(a, b forage.Mount) int { return strings.Compare(a.Target, b.Target) })
	for i, m := range mounts {
		if err := checkTarget(m); err != nil {
			return err
		}
		if i > 0 && mounts[i-1].Target == m.Target {
			return forage.Errorf(forage.ErrUsage, "two mounts at %s", m.Target)
		}
		t, err := p.openTree(m, true)
		if errors.Is(err, os.ErrNotExist) && m.Optional {
			continue
		}
		if err != nil {
			return fmt.Errorf("mounting %s: %w", m.Target, err)
		}
		p.mounts = append(p.mounts, t)
	}
	return nil
}

// openTree looks at the source of m, and makes it a mount when root calls: the child has another
// user's rights then, and might not get there.
func (p *plan) openTree(m forage.Mount, mapped bool) (tree, error) {
	t := tree{Mount: m}
	if m.System && !p.ids.root && p.place == nil {
		return t, nil // the child finds it, or not, as well as we do; an engine is root
	}
	fd, err := mount.Open(m.Source)
	if errors.Is(err, unix.ELOOP) {
		return t, forage.Errorf(forage.ErrRefused, "%s: a symbolic link is on the way", m.Source)
	}
	if err != nil {
		return t, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return t, fmt.Errorf("looking at %s: %w", m.Source, err)
	}
	t.Device, t.Inode = st.Dev, st.Ino
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		t.Folder = true
	case unix.S_IFREG:
		if m.Layered {
			return t, forage.Errorf(forage.ErrRefused, "%s is a file: only a folder can have a layer over it", m.Source)
		}
	default:
		return t, forage.WithHint(
			forage.Errorf(forage.ErrRefused, "%s is neither a file nor a folder", m.Source),
			"a socket, FIFO or device of the host would lead out of the sandbox")
	}
	if err := p.checkGit(fd, m); err != nil || !p.ids.root {
		return t, err
	}
	owner := p.ids.inside()
	if mapped && !(m.System && openToAll(st.Mode)) {
		owner = mount.Owner{UID: int(st.Uid), GID: int(st.Gid)}
	}
	mount, err := p.ids.detached(fd, t, owner)
	if err != nil {
		return t, err
	}
	p.files = append(p.files, mount)
	t.FD = len(p.files)
	return t, nil
}

// openToAll says whether every user can read a file, or list and go through a folder.
func openToAll(mode uint32) bool {
	if mode&unix.S_IFMT == unix.S_IFDIR {
		return mode&0o005 == 0o005
	}
	return mode&0o004 != 0
}

// checkGit refuses a workspace whose .git is a link and stays visible: what it
// leads to may be in the workspace too, where the agent writes.
func (p *plan) checkGit(fd int, m forage.Mount) error {
	git := path.Join(m.Target, ".git")
	covered := slices.ContainsFunc(p.req.Spec.Mounts, func(m forage.Mount) bool { return m.Target == git })
	if m.Target != forage.WorkspacePath || !m.Writable || covered {
		return nil
	}
	var st unix.Stat_t
	err := unix.Fstatat(fd, ".git", &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return nil // none, or one that is made read-only
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "%s/.git is a symbolic link, which can't be protected from the agent", m.Source),
		"replace it by a file with the line \"gitdir: PATH\", or make the workspace read-only")
}

// reservedTargets are places that make the sandbox what it is.
var reservedTargets = []string{"/proc", "/sys", "/dev", forage.RunPath}

// checkTarget refuses places where a mount would take the sandbox apart.
func checkTarget(m forage.Mount) error {
	target := m.Target
	if !strings.HasPrefix(target, "/") || target != path.Clean(target) {
		return forage.Errorf(forage.ErrUsage, "%q is not an absolute, clean path", target)
	}
	for _, own := range reservedTargets {
		if rootfs.Within(target, own) || rootfs.Within(own, target) {
			return forage.Errorf(forage.ErrRefused, "nothing can be mounted at %s", target)
		}
	}
	if m.Layered && (m.System || m.Writable) {
		return forage.Errorf(forage.ErrRefused, "%s can't be layered and writable or the system's at once", target)
	}
	if m.System && m.Writable {
		return forage.Errorf(forage.ErrRefused, "%s is a part of the host's system and can't be writable", target)
	}
	return nil
}
