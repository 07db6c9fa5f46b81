package native

import (
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"forage"
)

// ownership says whose files on disk the agent takes for its own.
type ownership struct {
	uid, gid int
	mapped   bool
}

// detached makes a mount of what fd is open on, for root to hand to a child
// that is somebody else. With an owner the mount is idmapped: what belongs to the
// owner on disk belongs to the agent inside, and what the agent makes belongs
// to the owner on disk: mount_setattr(2), "ID-mapped mounts".
func (m idMaps) detached(fd int, t tree, owner ownership) (*os.File, error) {
	attrs := uint64(attrReadOnly)
	if t.Writable {
		attrs = attrInert
	}
	mount, err := cloneTree(fd, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Source, err)
	}
	f := os.NewFile(uintptr(mount), t.Source)
	attr := unix.MountAttr{Attr_set: attrs, Propagation: unix.MS_PRIVATE}
	if owner.mapped && (owner.uid != m.who.HostUID || owner.gid != m.who.HostGID) {
		userns, err := mapping(swap(owner.uid, m.who.HostUID), swap(owner.gid, m.who.HostGID))
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("%s: %w", t.Source, err)
		}
		defer userns.Close()
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(userns.Fd())
	}
	err = unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr)
	goruntime.KeepAlive(f)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EINVAL) && attr.Attr_set&unix.MOUNT_ATTR_IDMAP != 0 {
		return nil, forage.WithHint(
			forage.Errorf(forage.ErrUnsupported, "the file system of %s can't map owners (idmapped mounts), which a sandbox started by root needs", t.Source),
			"start it as the user who owns the files, or keep them on ext4, xfs, btrfs or tmpfs")
	}
	return nil, fmt.Errorf("%s: mount_setattr: %w", t.Source, err)
}

// maxID is one more than the largest id: (uid_t)-1 is none.
const maxID = 1<<32 - 1

// extent is a line of a map of ids.
type extent struct{ inside, outside, size int }

// swap maps every id to itself, but a and b to each other. All ids are mapped, so that files
// of others than the owner keep their permissions: to write to a file
// whose owner is not mapped is refused whatever its mode.
func swap(a, b int) []extent {
	low, high := min(a, b), max(a, b)
	var extents []extent
	add := func(from, to, size int) {
		if size > 0 {
			extents = append(extents, extent{from, to, size})
		}
	}
	add(0, 0, low)
	add(low, high, 1)
	if low != high {
		add(low+1, low+1, high-low-1)
		add(high, low, 1)
	}
	add(high+1, high+1, maxID-high-1)
	return extents
}

// mapping returns a user namespace with those maps. A namespace is made by a
// process: this one stops before its first instruction and is then ended. It is
// in a session of its own: a signal to our process group (a terminal's
// interrupt) that came to it while it is traced and before it has executed would stop
// it there, and this thread with it, for good.
func mapping(uids, gids []extent) (*os.File, error) {
	goruntime.LockOSThread() // the tracer is a thread
	defer goruntime.UnlockOSThread()
	pid, _, err := syscall.StartProcess(selfExe, []string{"forage-idmap"}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER, Setsid: true, Ptrace: true, Pdeathsig: syscall.SIGKILL,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("making a user namespace for the owner's map: %w", err)
	}
	defer func() {
		unix.Kill(pid, unix.SIGKILL)
		for {
			if _, err := unix.Wait4(pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}()
	proc := "/proc/" + strconv.Itoa(pid) + "/"
	// Not by SysProcAttr: it opens these files without close-on-exec, and a guest that is
	// cloned in that moment would have them.
	for file, extents := range map[string][]extent{"uid_map": uids, "gid_map": gids} {
		if err := writeFile(proc+file, mapText(extents)); err != nil {
			return nil, fmt.Errorf("writing the owner's map: %w", err)
		}
	}
	return os.Open(proc + "ns/user")
}

// mapText is a map as user_namespaces(7) wants it.
func mapText(extents []extent) string {
	var b strings.Builder
	for _, e := range extents {
		fmt.Fprintf(&b, "%d %d %d\n", e.inside, e.outside, e.size)
	}
	return b.String()
}
